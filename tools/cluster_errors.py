"""How tools/cluster ends when it can't do what was asked."""


class UsageError(Exception):
    """The caller's mistake."""


class NotPossible(Exception):
    """This machine, or this user, can't have a cluster."""


class Interrupted(BaseException):
    """A signal has told the tool to end."""

    def __init__(self, number):
        super().__init__()
        self.number = number
