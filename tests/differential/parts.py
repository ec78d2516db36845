"""Expressions that know simpler ones, and queries of them: what fails is made smaller inside of its expressions, too."""

import copy
from dataclasses import dataclass

from join_queries import Select


class Part(str):
    """The text of an expression, and what is simpler and could stand in its place."""

    def __new__(cls, text, simpler=()):
        part = super().__new__(cls, text)
        part.simpler = list(simpler)
        return part

    def __deepcopy__(self, _):
        return self

    def within(self, frame):
        """This part in a frame with one `{}`, which is simpler with something simpler in it."""
        return Part(frame.replace("{}", self), [self, *(frame.replace("{}", simpler) for simpler in self.simpler)])


@dataclass
class Outer(Select):
    """A SELECT whose parts may be made simpler."""

    def smaller(self):
        yield from super().smaller()
        for name in ("where", "having", "outputs", "keys"):
            for index, part in enumerate(getattr(self, name)):
                for simpler in getattr(part, "simpler", ()):
                    less = copy.deepcopy(self)
                    getattr(less, name)[index] = simpler
                    yield less
