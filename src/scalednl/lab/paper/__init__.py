"""The paper as data, and the rules that judge it. Imports no torch.

| data | read by | content |
|---|---|---|
| `tables.json` | `tables` | every printed number and training setting |
| `provenance.json` | `provenance` | the origin of each choice; inferred settings; contradictions |
| `contrasts.json` | `printed_contrasts` | printed differences that the claims rest on |
| `controls.json` | `artefacts` | trainings that the paper lacks, beside its tables and figures |
| `evidence.json` | `evidence` | the declared plan: which trainings run, and in which order |
| `claims.json` | `claims` | the claims, each a contrast between trainings |

`scales` turns a cell of a table (`grids`) into an experiment, `rules` fixes margins and levels, and
`answers` turns an estimate into a verdict.
"""
