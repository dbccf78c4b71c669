"""Look-ups in tables, one after another: the last line of a text names the entity that is reached, by one of two names.

The second name of an entity is its number and 100.
"""

from dataclasses import dataclass

from pydantic import StrictInt, TypeAdapter

from pipeline_lib.kinds.kind import Kind
from pipeline_lib.verdicts import Status, Verdict

SECOND = 100
"""Added to the number of an entity in its second name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HopsGold:
    """The entity at the end."""

    entity: StrictInt


_GOLD: TypeAdapter[HopsGold] = TypeAdapter(HopsGold)


def answer_form(text: str) -> str | None:
    """The number of the entity in the last line; None without any."""
    last = text.strip().rpartition("\n")[2].strip()
    is_name = last.isascii() and last.isdecimal() and int(last[:4]) < 2 * SECOND
    return str(int(last) % SECOND) if is_name else None


def _judge(gold: HopsGold, text: str) -> Verdict:
    found = answer_form(text)
    right = found == str(gold.entity)
    status = Status.UNPARSED if found is None else Status.CORRECT if right else Status.WRONG
    return Verdict(status=status, strict=right, lenient=right, extracted=found)


HOPS = Kind(
    name="hops",
    gold=HopsGold,
    instruction="Write the entity after each table, one a line.",
    judge=_judge,
    answer_form=answer_form,
    show_gold=lambda gold: str(gold.entity),
    read_line=lambda row: _GOLD.validate_python({"entity": row.get("entity")}),
    write_line=lambda gold: {"entity": gold.entity},
    prose_questions=False,
)
