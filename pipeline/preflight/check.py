"""The result of a check, and the registry of checks.

A check is one function in a module of `checks`; these modules are imported automatically:

    @check(170, "teapot")
    def check_teapot(target: Target) -> Check | None:
        return Check("teapot", "ok", "the host is not a teapot")

It gets the facts of the target and returns one `Check`, several, or None if there is nothing to check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from pipeline.errors import BackcastError, Refused, StalePlan, Unfinished, UnreadableExport
from pipeline.management.problems import Forbidden, ServiceProblem, Unauthenticated
from pipeline.report.records import Check, Level

if TYPE_CHECKING:
    from pipeline.preflight.target import Target

Needs = Literal["nothing", "personal key", "project", "events"]
"""What a check needs from the service; without it the result is `unknown`. `events`: it reads what landed in the
project, which takes queries; if one fails, or if an export cannot be read, the result is `unknown` too."""

Function = TypeVar("Function", bound="Callable[[Target], Check | Iterable[Check] | None]")


class RegisteredCheck(NamedTuple):
    """A check function, its order in the report, the name of its result, what it needs, and all names it may report."""

    order: int
    name: str
    needs: Needs
    names: tuple[str, ...]
    function: Callable[[Target], Check | Iterable[Check] | None]

    def results(self, target: Target) -> Iterator[Check]:
        """Run the check; if it lacks what it needs, the result is `unknown`."""
        if self.needs != "nothing" and target.client is None:
            hint = "set BACKCAST_PERSONAL_KEY, or give --personal-key-file FILE; it begins with phx_"
            yield Check(self.name, "unknown", "there is no personal key", hint)
        elif self.needs in ("project", "events") and not target.project.known:
            yield Check(self.name, "unknown", "cannot read a project", target.project.check.hint)
        else:
            try:
                result = self.function(target)
                yield from [result] if isinstance(result, Check) else result or ()
            except (Refused, Unfinished, StalePlan, UnreadableExport) as error:
                if self.needs != "events":
                    raise
                target.interrupted = target.interrupted or isinstance(error, Unfinished)
                yield _unanswered(self.name, error)


_REGISTERED: list[RegisteredCheck] = []


def check(
    order: int, name: str, *, needs: Needs = "nothing", also: tuple[str, ...] = ()
) -> Callable[[Function], Function]:
    """Register a check function. Results are reported by ascending `order`. `also` are other names that it reports."""

    def register(function: Function) -> Function:
        _REGISTERED.append(RegisteredCheck(order, name, needs, (name, *also), function))
        return function

    return register


def registered_checks() -> list[RegisteredCheck]:
    """Every check of the modules in `checks`, in the order of the report."""
    from pipeline.preflight import checks

    for module in iter_modules(checks.__path__, f"{checks.__name__}."):
        import_module(module.name)
    return sorted(_REGISTERED, key=lambda registered: registered.order)


def _unanswered(name: str, error: BackcastError) -> Check:
    """The result if queries, or the export with which they are compared, gave no answer."""
    if isinstance(error, Refused) and error.status in (401, 403):
        return Check(name, "unknown", "the personal key may not query the project", "give it the scope query:read")
    if isinstance(error, Unfinished):
        hint = "run the same command again: it resumes with the answers that it has"
        return Check(name, "unknown", f"the target did not answer all queries: {error.message}", hint)
    return Check(name, "unknown", error.message, error.hint)


def check_of_error(name: str, error: ServiceProblem) -> Check:
    """The result for an error of the service: `unknown`, with the missing scope if there is one.

    It is a `stop` if the service refuses the personal key, or if the certificate of the host is not trusted.
    """
    if isinstance(error, Forbidden) and "scope" in error.detail:
        return Check(name, "unknown", f"the personal key lacks the scope {error.scope}", error.hint)
    if isinstance(error, Unauthenticated):
        return Check(name, "stop", f"the service refuses the personal key: {error.detail or error.message}", error.hint)
    level: Level = "stop" if "certificate is not trusted" in error.message else "unknown"
    return Check(name, level, error.message, error.hint)
