"""What the tests of pages in a browser share: hostile names, the rules of axe, and what must not show."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.browser import Tab
from tests.support.required import require

AXE = Path(__file__).parent.parent / "real_clients" / "node_modules" / "axe-core" / "axe.min.js"
HOSTILE = {
    "markup": "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">'{{ 7*7 }}",
    "right to left": "\u202egnp.esu\u2066 \u0634\u0631\u0627\u0621",
    "long": "W" * 200,
    "emoji": "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f468\U0001f3fd\u200d\U0001f4bb at home",
}
TAGS = "[...document.querySelectorAll('body *')].map(one => one.tagName).join(' ')"
"""The elements of the open page, in their order."""
_WIDE = (
    "[...document.querySelectorAll('main *')].filter(one => !one.closest('.wide')"
    " && one.getBoundingClientRect().right > innerWidth + 1).map(one => one.outerHTML.slice(0, 200))"
)


def opened(tab: Tab, page: Path) -> Tab:
    """The page with all its folds open."""
    tab.open(page.as_uri())
    tab.run("document.querySelectorAll('details').forEach(one => one.open = true)")
    return tab


def violations(tab: Tab) -> list[list[str]]:
    """The violations that axe finds on the open page: impact, rule and element. Scripts run only for this check."""
    require(AXE.exists(), "axe-core is not installed: npm ci --ignore-scripts --prefix tests/real_clients")
    tab.run(f"{AXE.read_text(encoding='utf-8')}; 0")
    passes, found = tab.run(
        "axe.run(document).then(found => [found.passes.length,"
        " found.violations.map(one => [one.impact, one.id, one.nodes[0].html])])"
    )
    assert passes > 15
    return list(found)


def too_wide(tab: Tab) -> list[str]:
    """The elements that are wider than the window; wide tables scroll inside of themselves."""
    return list(tab.run(_WIDE))


def without_direction(tab: Tab, kind: str) -> tuple[int, list[str]]:
    """How often a hostile name is on the page, and where it is not in an element of its own direction."""
    shown = {"right to left": "gnp.esu", "long": "W" * 60}.get(kind, HOSTILE[kind])
    count, *others = tab.run(f"""(() => {{
      const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [0];
      while (walker.nextNode()) if (walker.currentNode.data.includes({json.dumps(shown)})) {{
        found[0]++;
        if (!walker.currentNode.parentElement.closest('bdi, pre, code'))
          found.push(walker.currentNode.parentElement.outerHTML.slice(0, 200));
      }}
      return found;
    }})()""")
    body = tab.run("document.body.innerText")
    assert not {"\u202e", "\u2066"} & set(body)
    assert "\\u200d" not in body
    return count, others
