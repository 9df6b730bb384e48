"""The claims as contrasts of trainings."""

from scalednl.lab.paper.artefacts import artefacts
from scalednl.lab.paper.claims import DIVERGED, claims
from scalednl.lab.paper.rules import PRIMARY
from scalednl.lab.paper.scales import SCALES


def test_names_and_sentences_are_unique() -> None:
    """No claim is listed twice, and a claim that needs two places has them at the full scale."""
    assert len({claim.name for claim in claims()}) == len(claims())
    assert len({claim.says for claim in claims()}) == len(claims())
    assert all(claim.is_testable(SCALES["paper"]) for claim in claims())


def test_every_claim_belongs_to_a_table_that_trains_it() -> None:
    """At the full scale each claim's trainings are cells of the table that it names."""
    paper = SCALES["paper"]
    for claim in claims():
        cells = {experiment.cell for _, experiment in artefacts()[claim.artefact].trainings(paper)}
        for terms in claim.rows:
            for term in terms:
                experiment = paper.experiment(term.setting)
                assert experiment is not None
                assert experiment.cell in cells
            assert sum(term.weight for term in terms) == 0 or claim.quantity == DIVERGED
    assert set(PRIMARY) <= {claim.name for claim in claims()}


def test_the_papers_own_numbers_support_its_claims() -> None:
    """Every claim that printed errors can test is positive in them: no sign is reversed."""
    printed = {
        cell.setting: cell.printed
        for artefact in artefacts().values()
        for cell in artefact.cells
        if cell.printed is not None
    }
    tested = 0
    for claim in claims():
        for terms in claim.rows:
            values = [(term.weight, printed.get(term.setting)) for term in terms]
            is_error = claim.quantity == "error" and claim.kind != "comparable"
            if is_error and all(value is not None for _, value in values):
                total = sum(weight * value for weight, value in values if value is not None)
                assert total > 0, claim
                tested += 1
    assert tested >= 30
