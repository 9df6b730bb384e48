"""Commands that are parsed first and called later."""

from scalednl.lab.cli.deferred import deferred


def test_a_command_is_called_when_it_is_asked_to() -> None:
    """Options are bound at once; name and help are the command's own."""
    called: list[tuple[int, str]] = []

    def command(number: int, *, word: str = "x") -> None:
        """Do it."""
        called.append((number, word))

    later = deferred(command)
    assert (later.__name__, later.__doc__) == ("command", "Do it.")
    bound = later(3, word="y")
    assert called == []
    bound()
    assert called == [(3, "y")]
