"""The cases that stand beside one in its batch, and the verdict on a case in such company.

A batch lies in memory case behind case and runs in one process. What a launch leaves behind in its
process, or writes outside of its own memory, shows in other cases alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from kv_canary_fuzz.strategies.case import Case
from kv_canary_fuzz.strategies.content import Content
from kv_canary_fuzz.strategies.wellformed import MOST_BYTES, MalformedCase, check_case

from ..execution.layout import ALIGNMENT, lay_out

MOST_COMPANIONS = 1024
"""Cases beside one, before and after it, in a file each."""

COMPANY = "in company: "
"""How the signature of a case begins that differs in the company of others and agrees alone."""

Companions = Annotated[tuple[Case, ...], Meta(max_length=MOST_COMPANIONS)]


class Company(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The cases ``before`` and ``after`` one in its batch, which a fresh process runs whole."""

    before: Companions = ()
    after: Companions = ()

    @property
    def size(self) -> int:
        return len(self.before) + len(self.after)

    @property
    def cases(self) -> tuple[Case, ...]:
        return (*self.before, *self.after)

    @property
    def silent(self) -> bool:
        """Whether none of them launches anything, so that all that happens is the case's doing."""
        return not any(case.steps for case in self.cases)

    def around(self, case: Case) -> tuple[Case, ...]:
        """The batch."""
        return (*self.before, case, *self.after)

    def of(self, cases: Sequence[Case]) -> Company:
        """The company with ``cases``, as many, in place of its own."""
        count = len(self.before)
        return Company(tuple(cases[:count]), tuple(cases[count:]))

    def without(self, positions: set[int]) -> Company:
        """The company without those of its cases."""
        kept = [k for k in range(self.size) if k not in positions]
        cases, count = self.cases, len(self.before)
        return Company(
            tuple(cases[k] for k in kept if k < count), tuple(cases[k] for k in kept if k >= count)
        )


ALONE = Company()


def silent_case(size: int) -> Case:
    """A case that launches nothing and takes ``size`` bytes: a multiple of 64 as any case takes.

    Its bytes are drawn from a seed, so that hardly any stray write leaves them as they are.
    """
    case = Case(num_slots=1, slot_stride_bytes=ALIGNMENT, canary_buf=Content(seed=size))
    return replace(case, num_slots=1 + (size - lay_out(case).size) // ALIGNMENT)


def silenced(case: Case) -> Case:
    """A case in the place of ``case``, of its size, that launches nothing."""
    return silent_case(lay_out(case).size)


def merged(cases: Sequence[Case]) -> tuple[Case, ...]:
    """The cases with one silent case in the place of silent neighbours."""
    kept: list[Case] = []
    for case in cases:
        if kept and not kept[-1].steps and not case.steps:
            case = silent_case(lay_out(kept.pop()).size + lay_out(case).size)
        kept.append(case)
    return tuple(kept)


def check_company(company: Company, case: Case) -> None:
    """Raise MalformedCase unless each is a case and all of them together take no more than one may.

    ``case`` is taken to be a case.
    """
    if company.size > MOST_COMPANIONS:
        raise MalformedCase("", f"{company.size} cases, the limit is {MOST_COMPANIONS}")
    total = lay_out(case).size
    for name, cases in (("before", company.before), ("after", company.after)):
        for number, one in enumerate(cases):
            try:
                check_case(one)
            except MalformedCase as error:
                raise MalformedCase(f"{name}[{number}].{error.place}", error.fault) from None
            total += lay_out(one).size
            if total > MOST_BYTES:
                fault = f"with the case, takes more than {MOST_BYTES} bytes of memory, the limit"
                raise MalformedCase(f"{name}[{number}]", fault)
