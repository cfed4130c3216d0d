"""What objects can do is asked of their classes, once."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from tastespace.models.base.posterior import Capability


@runtime_checkable
class Sings(Capability, Protocol):
    @property
    def voice(self) -> str: ...

    def sing(self) -> str: ...


class Bird:
    voice = "high"

    def sing(self) -> str:
        return "tweet"


class Fish:
    voice = "none"


def test_all_members_count_and_classes_do_not_mix():
    for _ in range(2):
        assert isinstance(Bird(), Sings)
        assert not isinstance(Fish(), Sings)
        assert not isinstance(None, Sings)


def test_a_class_is_looked_at_once():
    fish = Fish()
    assert not isinstance(fish, Sings)
    fish.sing = lambda: "blub"
    assert not isinstance(fish, Sings)
