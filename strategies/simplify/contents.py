"""Passes that make bytes plain: contents to zeros, a seed to the few words that matter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from ..case import Case
from ..content import Content
from .problem import Problem, Span, descend, first, remove
from .relabel import canary_frame, source_frame, used_slots
from .words import (
    RING,
    WORD_BYTES,
    content_of,
    patched_words,
    put_content,
    read_words,
    region_names,
    region_size,
    source_index,
    with_words,
)

MANY_WORDS = 2048
"""Words up to which a region is spelt out whole."""
PLAIN = Content()


def plain_contents(problem: Problem) -> None:
    """Zeros everywhere, else region by region; a seed or fill that matters is spelt out."""
    case = problem.case
    for region in region_names(case):
        case = put_content(case, region, PLAIN)
    if problem.attempt(case):
        return
    for region in region_names(problem.case):
        case = problem.case
        content = content_of(case, region)
        if problem.attempt(put_content(case, region, PLAIN)):
            continue
        if content.seed is None and content.fill == 0:
            continue
        spelt = (put_content(case, region, spelling) for spelling in _spellings(case, region))
        if not first(problem, spelt):
            _plain_base(problem, region)


def _plain_base(problem: Problem, region: str) -> None:
    content = content_of(problem.case, region)
    bases = [PLAIN, Content(fill=1), Content(fill=255), Content(seed=0), Content(seed=1)]
    plain = [replace(base, patches=content.patches) for base in bases] + bases
    first(problem, (put_content(problem.case, region, base) for base in plain))


def _spellings(case: Case, region: str) -> Iterator[Content]:
    """Zeros with the words that launches use, then with all words."""
    content = content_of(case, region)
    used = sorted(set(_used_words(case, region)))
    if len(used) <= MANY_WORDS:
        words = {**patched_words(content), **read_words(content, used)}
        yield with_words(PLAIN, words)
    every = region_size(case, region) // WORD_BYTES
    if every <= MANY_WORDS:
        yield with_words(PLAIN, read_words(content, range(every)))


def _used_words(case: Case, region: str) -> Iterable[int]:
    if region == RING:
        return
    k = source_index(region)
    frame = canary_frame(case) if k is None else source_frame(case.real_kv_sources[k])
    count = 32 if k is None else min(case.real_kv_sources[k].read_bytes, frame.width)
    for slot in used_slots(case):
        start = frame.join(slot, 0, 0)
        if start is not None:
            yield from range(start // WORD_BYTES, (start + count) // WORD_BYTES)


def zero_words(problem: Problem) -> None:
    """Words to 0, runs of them at a time; then what is left to small numbers."""
    for region in region_names(problem.case):
        _zero_region(problem, region)
        for index in patched_words(content_of(problem.case, region)):
            lower_word(problem, region, index)


def _zero_region(problem: Problem, region: str) -> None:
    base = problem.case
    content = content_of(base, region)
    words = patched_words(content)
    indices = sorted(index for index, word in words.items() if word)

    def zeroed(spans: Sequence[Span]) -> Case:
        gone = {indices[k] for start, stop in spans for k in range(start, stop)}
        left = {index: 0 if index in gone else word for index, word in words.items()}
        return put_content(base, region, with_words(content, left))

    each = [(k, k + 1) for k in range(len(indices))]
    remove(each, lambda spans: problem.attempt(zeroed(spans)))


def lower_word(problem: Problem, region: str, index: int) -> None:
    word = read_words(content_of(problem.case, region), [index])[index]
    descend(word, lambda number: problem.attempt(put_word(problem.case, region, index, number)))


def put_word(case: Case, region: str, index: int, word: int) -> Case:
    content = content_of(case, region)
    words = {**patched_words(content), index: word}
    return put_content(case, region, with_words(content, words))
