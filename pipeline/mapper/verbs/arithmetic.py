"""The verbs that calculate, in exact decimals. If an operand is not a number, or a result has too many digits, the
value is missing, with the warning `bad_value`."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, DivisionByZero, Inexact, InvalidOperation, Overflow, Underflow
from fractions import Fraction
from functools import lru_cache, reduce
from operator import add, mul, sub

from msgspec import Raw

from pipeline import values
from pipeline.json_limits import unsendable
from pipeline.mapper.codegen.conversions import as_number
from pipeline.mapper.codegen.runtime import member_at
from pipeline.mapper.language.kinds import NUMBER, NUMBERS, TEXT, VALUE, Call, Field, value
from pipeline.mapper.program.builder import Builder
from pipeline.mapper.program.expressions import Apply, Constant, Value
from pipeline.mapper.program.functions import computed, function
from pipeline.values import BadValue

MOST_DIGITS = 60
"""The most digits of a number and of an exact result; a source with longer numbers does not hold amounts."""
PLACES = 12
"""Decimal places of a division that does not end, and the most that `round` keeps."""

_EXACT = Context(prec=MOST_DIGITS, traps=[Inexact, InvalidOperation, DivisionByZero, Overflow, Underflow])
_ROUNDED = Context(prec=MOST_DIGITS, rounding=ROUND_HALF_UP, traps=[InvalidOperation])
_SMALLEST = Decimal(1).scaleb(-PLACES)


def _several(name: str, help: str, argument: str, exactly: int = 0) -> None:
    @value(name, help, **{name: Field(NUMBERS, argument, True)})
    def build_arithmetic(build: Builder, call: Call) -> Value:
        given = call.arguments[name]
        if len(given) < 2 or (exactly and len(given) != exactly):
            wanted = "two" if exactly else "two or more"
            raise call.place.error(f"{name} takes {wanted} numbers, not {len(given)}", f"write {name}: [/price, /tax]")
        return Apply("calculated", (Constant(name), *map(build.present, given)))


_several("add", "the sum of numbers; missing if one of them is", "two or more numbers")
_several("subtract", "the first number less the second; missing if one of them is", "two numbers", exactly=2)
_several("multiply", "the product of numbers; missing if one of them is", "two or more numbers")


@value(
    "divide",
    f"one number divided by another, rounded to {PLACES} decimal places if it does not end; missing if one of them is",
    divide=Field(NUMBER, "the number", True),
    by=Field(NUMBER, "what it is divided by; a division by 0 is missing, with the warning bad_value", True),
)
def divide(build: Builder, call: Call) -> Value:
    by = call.arguments["by"]
    if by.verb == "json":
        try:
            divisor = _decimal(by.arguments["json"])
        except BadValue as error:
            raise call.place.error(str(error), "write a number, or a reference to one") from None
        if not divisor:
            raise call.place.error("a division by 0 has no result", "divide by another number")
    numbers = (build.present(call.arguments["divide"]), build.present(by))
    return Apply("calculated", (Constant("divide"), *numbers))


@value(
    "round",
    "a number rounded to a number of decimal places, halves away from zero; missing if it is",
    round=Field(NUMBER, "the number", True),
    digits=Field(TEXT, f"the decimal places, 0 to {PLACES}; 0 if left out"),
)
def round_(build: Builder, call: Call) -> Value:
    digits = call.arguments.get("digits", "0")
    if not (digits.isascii() and digits.isdecimal() and int(digits) <= PLACES):
        raise call.place.error(f"digits: {digits!r} is not a number from 0 to {PLACES}", "write digits: 2")
    return Apply("rounded", (build.present(call.arguments["round"]), Constant(int(digits))))


@function(needs=3, warns=True)
def calculated(operation: str, *numbers: values.Value) -> Raw | None:
    """The sum, difference, product or quotient of numbers; None if one of them is missing. Raises BadValue."""
    if None in numbers:
        return None
    texts = [bytes(number) if type(number) is Raw else number for number in numbers]
    if all(isinstance(text, bytes | str) and len(text) <= MOST_DIGITS for text in texts):
        return _calculated_often(operation, *texts)
    return _calculated(operation, *numbers)


def _calculated(operation: str, *numbers: values.Value | bytes) -> Raw:
    """The result for numbers, some of them as the bytes of JSON. Raises BadValue."""
    read = [as_number(Raw(number) if isinstance(number, bytes) else number) for number in numbers]
    if operation in _OF_WHOLE and len(read) == 2 and all(type(one) is Raw and _WHOLE.fullmatch(one) for one in read):
        first, second = map(int, map(bytes, read))  # type: ignore[arg-type]
        return Raw(b"%d" % _OF_WHOLE[operation](first, second))
    result, *others = map(_decimal, read)
    for other in others:
        result = _OPERATIONS[operation](result, other)
    return _json(result)


# Many rows share the start of a session and the price of a product.
_calculated_often = lru_cache(4_096)(_calculated)


@computed(
    "total",
    "the sum of one member over the objects in a list; missing if none of them has it",
    "present",
    warns=True,
    total=Field(VALUE, "the list", True),
    of=Field(TEXT, "the member's name", True),
)
def total_of(listed: values.Value, name: str) -> Raw | None:
    """The sum of a member; None if no item has it. Raises BadValue."""
    numbers = [number for item in values.items(listed) or () if (number := member_at(item, name)) is not None]
    return _json(reduce(_OPERATIONS["add"], map(_decimal, numbers))) if numbers else None


@function(needs=1, warns=True)
def rounded(number: values.Value, places: int) -> Raw:
    """A number with at most `places` decimal places. Raises BadValue."""
    decimal = _decimal(number)
    step = Decimal(1).scaleb(-places)
    return _json(decimal.quantize(step, context=_ROUNDED) if _places(decimal) > places else decimal)


def _places(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    return -exponent if isinstance(exponent, int) else 0


def _decimal(number: values.Value) -> Decimal:
    text = (values.text(as_number(number)) or "").strip()
    try:
        return _EXACT.create_decimal(text)
    except (Inexact, InvalidOperation, Overflow, Underflow):
        raise BadValue(f"a number of more than {MOST_DIGITS} digits: {text[:60]!r}") from None


def _exactly(operation: Callable[[Decimal, Decimal], Decimal]) -> Callable[[Decimal, Decimal], Decimal]:
    """The operation, with an error for a result that is not exact."""

    def calculate(one: Decimal, other: Decimal) -> Decimal:
        try:
            return operation(one, other)
        except (Inexact, InvalidOperation, Overflow, Underflow):
            raise BadValue(f"the result has more than {MOST_DIGITS} digits") from None

    return calculate


def _quotient(one: Decimal, other: Decimal) -> Decimal:
    if not other:
        raise BadValue("a division by 0")
    try:
        return _EXACT.divide(one, other)
    except (Inexact, Underflow):
        places = round(Fraction(one) / Fraction(other) * 10**PLACES)
        return _EXACT.multiply(_EXACT.create_decimal(places), _SMALLEST)


_OPERATIONS = {
    "add": _exactly(_EXACT.add),
    "subtract": _exactly(_EXACT.subtract),
    "multiply": _exactly(_EXACT.multiply),
    "divide": _exactly(_quotient),
}


_WHOLE = re.compile(rb"-?[0-9]{1,18}")
_OF_WHOLE: dict[str, Callable[[int, int], int]] = {"add": add, "subtract": sub, "multiply": mul}
"""The operations whose results are whole for whole numbers; with 18 digits they never have too many."""


def _json(number: Decimal) -> Raw:
    """A number as JSON, without an exponent if it needs none. Raises BadValue."""
    number = number if number else number.copy_abs()
    text = f"{number:f}" if abs(number.adjusted()) <= MOST_DIGITS else str(number)
    if problem := unsendable(text.encode()):
        raise BadValue(problem)
    return Raw(text.encode())
