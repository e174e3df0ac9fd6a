"""What each verb of the mapping language makes of a row."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from pipeline.errors import MappingError, UsageError
from pipeline.models import RejectReason, Skip, UnvalidatedEvent
from tests.support.small_mappings import ROW, drafted, mapper, properties, record

SET = "properties:\n  drop: [name, user, at]\n  set:\n    out: "


def value(verb: str, members: str = "", **settings: str) -> str | None:
    """The result of a value verb, as JSON; None if it is missing."""
    head = "settings: {kind: a word}\ntables: {codes: {Germany: DE, France: FR}}\n"
    return properties(f"{head}{SET}{verb}\n", members, settings=settings).get("out")


COUNTRIES = (
    "South Korea=KR|Korea, Republic of=KR|Russia=RU|Czechia=CZ|United States=US|Türkiye=TR|Bosnia and Herzegovina=BA|"
    "usa=US|and=AD|us=US|Swaziland=SZ|(not set)=|European Union=|EU=|="
)
BROWSERS = (
    "Chrome 118.0.0=Chrome|16.4.1=|mobile safari=Mobile Safari|edge-chromium=Microsoft Edge|"
    "Safari (in-app)=Mobile Safari|360 Browser 12=360 Browser|(not set)="
)
SYSTEMS = "Mac OS X 10.15=Mac OS X|MacOS X=Mac OS X|ANDROID=Android|Ubuntu=Linux|Windows XP=Windows|Tizen 5=Tizen"
VERSIONS = "Mac OS X 10_15_7 Catalina=10.15.7|Windows 10=10|Windows NT 6.1=7|Windows XP=XP"
DEVICES = "Tablet PC=Tablet|feature phone=Mobile|laptop=Desktop|console="
DOMAINS = (
    "https://me@WWW.x.example:8080/b=www.x.example:8080|x.example/b=x.example|android-app://com.x.y/=com.x.y|"
    "=$direct|(direct)=$direct|google="
)

WITHOUT_SCHEME = (
    ("www.x.example/b?c=1", "www.x.example", "/b"),
    ("x.example:8080/b#c", "x.example:8080", "/b"),
    ("x.example", "x.example", None),
    ("localhost:3000/b", "localhost:3000", "/b"),
    ("10.0.0.1/b", "10.0.0.1", "/b"),
    ("//x.example/b", "x.example", "/b"),
    ("xn--bcher-kva.example?b=1", "xn--bcher-kva.example", None),
    ("index.html?b=1", None, "index.html"),
    ("/b.c/d", None, "/b.c/d"),
    ("b/c", None, "b/c"),
    ("mailto:a@x.example", None, "a@x.example"),
)
"""URLs, each with its host and its path."""


def pairs(text: str) -> list[tuple[str, str | None]]:
    """A string and what is expected of it, None if nothing is."""
    found = (one.partition("=") for one in text.split("|"))
    return [(name, said or None) for name, _, said in found]


@pytest.mark.parametrize(
    ("verb", "members", "expected"),
    [
        ("a", '"a":1.10', "1.10"),
        ("a", '"a":null', None),
        ("/a", '"a":[1, 2]', "[1, 2]"),
        ("/a/b/c", '"a":{"b":{"c":-0.0}}', "-0.0"),
        ("/a/b/c", '"a":{"b":7}', None),
        ("/a~1b/c~0d", '"a/b":{"c~d":1}', "1"),
        ("{const: no}", "", '"no"'),
        ("{json: '1.10'}", "", "1.10"),
        ("{first: [a, b, c]}", '"a":null,"b":0,"c":2', "0"),
        ("{first: [a, b]}", '"a":"","b":2', '""'),
        ("{first: [a, b]}", '"a":false', "false"),
        ("{first: [a, b]}", "", None),
        ('{template: "https://{host}{path}"}', '"host":"x.example","path":"/a"', '"https://x.example/a"'),
        ('{template: "{host}!"}', "", None),
        ('{template: "{{{n}}}"}', '"n":1.0', '"{1.0}"'),
        ('{template: "no hole"}', "", '"no hole"'),
        ("{join: [a, b, c], with: -}", '"a":"x","c":3', '"x-3"'),
        ("{join: [a, b]}", "", None),
        ("{lookup: a, table: codes}", '"a":"France"', '"FR"'),
        ("{lookup: a, table: codes}", '"a":"Spain"', None),
        ("{lookup: a, table: codes, else: keep}", '"a":"Spain"', '"Spain"'),
        ("{lookup: a, table: codes, else: {const: XX}}", '"a":"Spain"', '"XX"'),
        ("{lookup: a, table: codes, case: any}", '"a":"gerMANY"', '"DE"'),
        ("{lookup: a, in: {1: one}}", '"a":1', '"one"'),
        ("{type: number, of: a}", '"a":"1.10"', "1.10"),
        ("{type: number, of: a}", '"a":12345678901234567890', "12345678901234567890"),
        ("{type: boolean, of: a}", '"a":"Yes"', "true"),
        ("{type: boolean, of: a}", '"a":0', "false"),
        ("{type: text, of: a}", '"a":1.10', '"1.10"'),
        ("{type: json, of: a}", '"a":"{\\"b\\": 1.0}"', '{"b": 1.0}'),
        ("{type: list, of: a}", '"a":"x"', '["x"]'),
        ("{type: number, of: a, else: keep}", '"a":"x"', '"x"'),
        ("{unless: [EMPTY, n/a], of: a}", '"a":"EMPTY"', None),
        ("{unless: [EMPTY, n/a], of: a}", '"a":1.0', "1.0"),
        ("{person_id: a}", '"a":17', '"17"'),
        ("{person_id: a}", '"a":"undefined"', None),
        ("{split: a, by: x, item: 0}", '"a":"1920x1080"', '"1920"'),
        ('{pieces: a, by: ","}', '"a":"1, ,2,"', '["1","2"]'),
        ('{pieces: a, by: ","}', '"a":" "', None),
        ('{pieces: a, by: ",", escape: ^}', '"a":"x^,y,z^^"', '["x,y","z^"]'),
        ('{pieces: a, by: ",", cells: "=", table: codes, prefix: "p "}', '"a":"France=1,Spain"', '["FR","p Spain"]'),
        ('{pieces: a, by: ",", cells: "=", table: codes}', '"a":"Spain=1,=2"', '["Spain"]'),
        (
            '{pieces: a, by: ",", cells: ;, columns: [group, id, price, rest], numbers: [price], escape: ^}',
            '"a":";x^;1;1.10;p;q^;r,;,g;y^=;one"',
            '[{"id":"x;1","price":1.10,"rest":"p;q;r"},{"group":"g","id":"y=","price":"one"}]',
        ),
        ("{total: a, of: n}", '"a":[{"n":1.10},{"m":1},{"n":"2"}]', "3.10"),
        ("{total: a, of: n}", '"a":[{"m":1}]', None),
        ("{split: a, by: x, item: -1}", '"a":"1920x1080"', '"1080"'),
        ("{split: a, by: x, item: 2}", '"a":"1920x1080"', None),
        ("{split: a, by: x, item: 1}", '"a":"1920x "', None),
        ("{item: 0, of: a}", '"a":["x","y"]', '"x"'),
        ("{record: a, numbers: [n], blank: [none]}", '"a":{"n":"1.10","b":null,"c":{},"d":"none"}', '{"n":1.10}'),
        ("{record: a, numbers: [n]}", '"a":[{"n":"x","l":[]},null,{"b":{"n":"2"}}]', '[{"n":"x"},{"b":{"n":2}}]'),
        ("{record: a}", '"a":{"b":[{"c":null}]}', None),
        ("{record: a}", '"a":"{\\"b\\":-0.0,\\"c\\":null}"', '{"b":-0.0}'),
        ("{record: a}", '"a":""', None),
        ("{record: a, millionths: [m]}", '"a":{"m":"49100000","n":[{"m":0}]}', '{"m":49.1,"n":[{"m":0}]}'),
        ("{record: a, millionths: [m]}", '"a":[{"m":-1},{"m":"x"}]', '[{"m":-0.000001},{"m":"x"}]'),
        (
            "{canonical: a}",
            '"a":{"z":[2.50,"x",null,-0.0,12345678901234567.0],"b":"10.0"}',
            r'"{\"b\":\"10\",\"z\":[\"2.5\",\"x\",null,\"0\",\"12345678901234567\"]}"',
        ),
        ("{canonical: a}", '"a":true', '"true"'),
        ("{item: 2, of: a}", '"a":["x","y"]', None),
        ("{item: 0, of: a}", '"a":"x"', '"x"'),
        ("{item: -1, of: a}", '"a":["x","y"]', '"y"'),
        ("{item: -3, of: a}", '"a":["x","y"]', None),
        ("{item: 0, where: {s: x/*}, of: a}", '"a":[{"s":"y/1"},{"s":"x/2","n":1.0}]', '{"s":"x/2","n":1.0}'),
        ("{item: 1, where: {s/0: x}, of: a}", '"a":[{"s":["x"]},{"s":["y"]},{"s":["x"],"n":2}]', '{"s":["x"],"n":2}'),
        ("{item: 1, where: {s: x}, of: a}", '"a":[{"s":"x"},7]', None),
        ("{member: b, of: {item: 0, of: {type: json, of: a}}}", '"a":"[{\\"b\\":1.10}]"', "1.10"),
        ("{member: b/1/c, of: a}", '"a":{"b":[0,{"c":"x"}]}', '"x"'),
        ("{member: b, of: a}", '"a":7', None),
        ("/a/0/b", '"a":[{"b":1.10}]', "1.10"),
        ("/a/1/b", '"a":[{"b":1.10}]', None),
        ("/a/0/b", '"a":{"0":{"b":2}}', "2"),
        ("/a/0", '"a":"x"', None),
        ("/a/0", '"a":"[5]"', "5"),
        ("{entries: a}", '"a":[{"key":"x","value":1.10},{"key":"y","value":null}]', '{"x":1.10}'),
        ("{entries: a}", '"a":[{"value":1},{"key":"z"},{"key":"x","value":1.10}]', '{"x":1.10}'),
        ("{entries: a}", '"a":"[{\\"key\\":\\"x\\",\\"value\\":1.10}]"', '{"x":1.10}'),
        ("{entries: a}", '"a":[{"key":1,"value":[2]},{"key":"1","value":3}]', '{"1":[2],"1_2":3}'),
        ("{entries: a}", '"a":[]', "{}"),
        ("{entries: a}", '"a":null', None),
        (
            "{entries: a, key: k, value: [v/s, v/n]}",
            '"a":[{"k":"x","v":{"s":null,"n":"5"}},{"k":"y","v":{"s":"t","n":1}}]',
            '{"x":"5","y":"t"}',
        ),
        (
            "{entries: a, key: k, value: [v/s, v/n], types: {v/n: number}}",
            '"a":[{"k":"x","v":{"n":"5"}},{"k":"y","v":{"n":"z"}},{"k":"y","v":7}]',
            '{"x":5,"y":"z"}',
        ),
        ("{lower: a}", '"a":"ÄB"', '"äb"'),
        ("{upper: a}", '"a":"äb"', '"ÄB"'),
        ('{strip: "$device:", of: a}', '"a":"$device:x"', '"x"'),
        ("{strip: _raw, of: a, at: end}", '"a":"_raw_raw"', '"_raw"'),
        ("{url: host, of: a}", '"a":"https://x.example:8080/b?c=1"', '"x.example:8080"'),
        ("{url: query, of: a}", '"a":"https://x.example/b?c=1"', '"c=1"'),
        ("{url: host, of: a}", '"a":"https://[x"', None),
        *(("{url: host, of: a}", f'"a":"{url}"', host and f'"{host}"') for url, host, _ in WITHOUT_SCHEME),
        *(("{url: path, of: a}", f'"a":"{url}"', path and f'"{path}"') for url, _, path in WITHOUT_SCHEME),
        ("{url: query:b, of: a}", '"a":"https://x.example/?b=caf%C3%A9+1&b=2#b=3"', '"café 1"'),
        ("{url: query:b, of: a}", '"a":"?c=1&b=%E9"', '"%E9"'),
        ("{url: query:b, of: a}", '"a":"x.example/p?b=1&c=https://y.example/?b=2"', '"1"'),
        ("{url: query:b, of: a}", '"a":"b=1&c=y.example/?d=2"', '"1"'),
        ("{url: host, of: {url: query:b, of: a}}", '"a":"c=1&b=y.example/p"', '"y.example"'),
        ("{url: path, of: {url: query:b, of: a}}", '"a":"x.example?b=y.example/p?c=1"', '"/p"'),
        ("{url: query:b c, of: a}", '"a":"b+c=1"', '"1"'),
        ("{url: query:b, of: a}", '"a":"https://x.example/b=1"', None),
        ("{url: query:b, of: a}", '"a":"https://x.example/?b=&c=1"', None),
        ("{url: query:b, of: a}", '"a":"https://x.example/#?b=1"', None),
        *(("{referring_domain: a}", f'"a":"{name}"', said and f'"{said}"') for name, said in pairs(DOMAINS)),
        ("{referring_domain: a}", "", None),
        *(("{country: a}", f'"a":"{name}"', said and f'"{said}"') for name, said in pairs(COUNTRIES)),
        ("{country: a}", '"a":"COTE D\'IVOIRE"', '"CI"'),
        *(("{browser_name: a}", f'"a":"{name}"', said and f'"{said}"') for name, said in pairs(BROWSERS)),
        ("{browser_name: a, part: version}", '"a":"Chrome 118.0.0"', "118"),
        ("{browser_name: a, part: version}", '"a":"16.4.1"', "16.4"),
        *(("{os_name: a}", f'"a":"{name}"', said and f'"{said}"') for name, said in pairs(SYSTEMS)),
        *(("{os_name: a, part: version}", f'"a":"{name}"', said and f'"{said}"') for name, said in pairs(VERSIONS)),
        *(("{device_type: a}", f'"a":"{name}"', said and f'"{said}"') for name, said in pairs(DEVICES)),
        ("{add: [a, b]}", '"a":0.1,"b":"0.20"', "0.30"),
        ("{add: [a, b, 1]}", '"a":9007199254740993,"b":-0.5', "9007199254740993.5"),
        ("{add: [a, b]}", '"a":1', None),
        ("{add: [a, b]}", '"a":1e59,"b":0.1', None),
        ("{add: [a, 1]}", '"a":true', None),
        ("{subtract: [a, b]}", '"a":1.10,"b":1.1', "0.00"),
        ("{subtract: [a, b]}", '"a":1e2,"b":1', "99"),
        ("{multiply: [a, 100]}", '"a":"1.10"', "110.00"),
        ("{multiply: [a, 0]}", '"a":-1', "0"),
        ("{multiply: [a, a]}", '"a":1e200', None),
        ("{divide: a, by: 1000000}", '"a":"12990000"', "12.99"),
        ("{divide: a, by: b}", '"a":10.00,"b":4', "2.50"),
        ("{divide: a, by: b}", '"a":2,"b":-3', "-0.666666666667"),
        ("{divide: a, by: b}", '"a":1,"b":1024', "0.0009765625"),
        ("{divide: a, by: b}", '"a":1,"b":0', None),
        ("{divide: a, by: /1000}", '"a":1,"1000":2', "0.5"),
        ("{round: a, digits: 2}", '"a":-2.675', "-2.68"),
        ("{round: a, digits: 2}", '"a":1.5', "1.5"),
        ("{round: a}", '"a":"2.5"', "3"),
        ("{seconds: {from: a, to: b, unit: ms}}", '"a":1000,"b":"2500"', "1.5"),
        ("{seconds: {from: a, to: b}}", '"a":"2023-01-01T00:00:00+01:00","b":"2022-12-31 22:59:59Z"', "-1"),
        ("{seconds: {from: a, to: b}}", '"a":"2023-01-01T00:00:00Z","b":"2023-01-01T00:00:00"', None),
        ("{seconds: {from: a, to: b, unit: s}}", '"a":1', None),
        ('{seconds: {from: a, to: b, format: "%Y%m%d"}}', '"a":20230101,"b":"20230102"', "86400"),
        ("{date: a, unit: us}", '"a":1672628645000001', '"2023-01-02T03:04:05.000001Z"'),
        ("{date: a, unit: auto, as: s}", '"a":"1672628645250"', "1672628645.25"),
        ("{date: a, unit: s, as: ms}", '"a":1672628645.0001', "1672628645000.1"),
        ("{date: a}", '"a":"2023-01-02 03:04:05"', '"2023-01-02T03:04:05"'),
        ("{date: a, as: day}", '"a":"2023-01-02T23:04:05-02:00"', '"2023-01-03"'),
        ('{date: a, format: "%d.%m.%Y", as: day}', '"a":"02.01.2023"', '"2023-01-02"'),
        ("{date: a, unit: s}", '"a":1e15', None),
        ("{date: a, unit: ms, as: s}", '"a":-1500', "-1.5"),
        ("{date: a}", '"a":" "', None),
        ("{when: {is: web, of: a}, then: b, else: c}", '"a":"web","b":1,"c":2', "1"),
        ("{when: {is: web, of: a}, then: b, else: c}", '"a":"app","b":1,"c":2', "2"),
        ("{when: {is: web, of: a}, then: b}", '"a":"app","b":1', None),
        ("{combine: [a, b]}", '"a":{"x":1,"y":null},"b":{"y":2,"z":"3"}', '{"x":1,"y":null,"z":"3"}'),
        ("{combine: [a, b]}", '"a":"{\\"x\\": 1}"', '{"x":1}'),
        ("{combine: [a, b]}", '"a":null,"b":{}', None),
        ("{session: a, with: [b]}", '"a":1738796251078,"b":"d"', '"0194d855-37c6-79d1-8874-e3fa3f135e10"'),
        *(("{session: a}", f'"a":{other}', None) for other in ("-1", '"x"', "0", "281474976710656")),
        ("{word: kind, default: company}", '"company":1', '"company"'),
        ("{word: kind}", "", None),
        ("{keyed: a, by: {word: kind, default: company}}", '"a":1.10', '{"company":1.10}'),
        ("{keyed: a, by: {word: kind}}", '"a":1.10', None),
        ("{keyed: b, by: {const: x}}", '"a":1.10', None),
        ('{keyed: a, by: {const: "x\\"y"}}', '"a":1.10', '{"x\\"y":1.10}'),
        ("{flat: a}", '"a":{"b":{"c":{"d":1.10}},"e":[{"f":2}],"g":null,"h":{}}', '{"b_c_d":1.10,"e":[{"f":2}]}'),
        ("{flat: a, own: [b, /b/c]}", '"a":{"b":{"c":{"d":1},"x":2}}', '{"d":1,"x":2}'),
        ("{flat: a, own: [b], except: [e]}", '"a":{"b":{"e":1},"e":2}', '{"e":1}'),
        ("{flat: a, own: [b, c]}", '"a":{"d":1,"b":{"d":2},"c":{"d":3,"b_d":4}}', '{"d":1,"b_d":2,"c_d":3,"c_b_d":4}'),
        ("{flat: a}", '"a":{"b_c":1,"b":{"c":2}}', '{"b_c":1,"b_b_c":2}'),
        *(("{flat: a}", nothing, None) for nothing in ('"a":{}', "")),
        ("{rank: [a, b]}", '"a":1,"b":2', "10000000002"),
        ("{rank: [a, b]}", '"a":"0","b":"7"', "7"),
        ("{rank: [a, b]}", '"a":9999999999,"b":9999999999', "99999999999999999999"),
        *(
            ("{rank: [a, b]}", f'"a":{number},"b":1', None)
            for number in ("10000000000", "-1", "1.5", '"١"', '""', "null")
        ),
        ("{first: [a, {refuse: no such kind}]}", '"a":1', "1"),
    ],
)
def test_value_verbs(verb: str, members: str, expected: str | None) -> None:
    """Each value verb gives what its one line of help says; zero, false and the empty string are values."""
    assert value(verb, members) == expected


@pytest.mark.parametrize(
    ("condition", "members", "holds"),
    [
        ("{present: a}", '"a":0', True),
        ("{present: a}", '"a":null', False),
        ("{absent: a}", "", True),
        ("{absent: a}", '"a":""', False),
        ("{is: '1', of: a}", '"a":1', True),
        ("{is: x, of: a}", "", False),
        ("{one_of: [x, y], of: a}", '"a":"y"', True),
        ("{one_of: [x, y], of: a}", "", False),
        ("{starts: x, of: a}", '"a":"xy"', True),
        ("{starts: x, of: a}", "", False),
        ("{contains: '@', of: a}", '"a":"a@b"', True),
        ("{same: [a, b]}", '"a":"1","b":1', True),
        ("{same: [a, b]}", "", False),
        ("{all: [{present: a}, {present: b}]}", '"a":1', False),
        ("{any: [{present: a}, {present: b}]}", '"a":1', True),
        ("{not: {present: a}}", "", True),
        ("{not: {all: [{present: a}, {not: {is: x, of: a}}]}}", '"a":"x"', True),
    ],
)
def test_conditions(condition: str, members: str, holds: bool) -> None:
    """Each condition holds when its one line of help says so."""
    assert value(f"{{when: {condition}, then: {{const: y}}}}", members) == ('"y"' if holds else None)


@pytest.mark.parametrize(
    ("verb", "message"),
    [
        ("{add: [a, 1]}", "not a number: 'x'"),
        ("{divide: 1, by: b}", "a division by 0"),
        ("{multiply: [c, c]}", "the result has more than 60 digits"),
        ("{round: d}", "a number of more than 60 digits"),
        ("{date: a}", "not an ISO 8601 time: 'x'"),
        ("{date: b, unit: s, as: day}", ""),
        ("{seconds: {from: a, to: b, unit: s}}", "not a number of seconds since 1970: 'x'"),
    ],
)
def test_what_cannot_be_calculated_is_missing_with_a_warning(verb: str, message: str) -> None:
    """The row is sent without the value, and the warning says why."""
    digits = "1" * 61
    draft = drafted(f"{SET}{verb}\n", f'"a":"x","b":0,"c":1.{digits[:40]},"d":{digits}')
    assert ("out" in draft.properties) == (message == "")
    assert [code for code, _ in draft.warnings] == ([] if message == "" else ["bad_value"])
    assert message in "".join(text for _, text in draft.warnings)


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        (SET + '{template: "{"}\n', "a single { or }"),
        (SET + "{lookup: a, table: nowhere}\n", "unknown table 'nowhere'"),
        (SET + "{item: first, of: a}\n", "not a whole number"),
        (SET + "{url: hots, of: a}\n", "no part 'hots'"),
        (SET + "{add: [a]}\n", "two or more numbers, not 1"),
        (SET + "{subtract: [a, b, c]}\n", "two numbers, not 3"),
        (SET + "{divide: a, by: 0.0}\n", "a division by 0"),
        (SET + "{divide: a, by: {json: '\"x\"'}}\n", "not a number"),
        (SET + "{round: a, digits: 13}\n", "not a number from 0 to 12"),
        (SET + "{date: a, unit: format}\n", "must be given together"),
        (SET + "{date: a, unit: s, format: '%Y'}\n", "must be given together"),
        (SET + "{seconds: {from: a, to: b, format: '%Y'}}\n", "lacks a year, a month or a day"),
        (SET + "{url: 'query:', of: a}\n", "no part 'query:'"),
    ],
)
def test_what_only_compiling_can_see_has_its_place_too(sections: str, message: str) -> None:
    """The error about a verb's own arguments has file, line and column."""
    with pytest.raises(MappingError, match=message) as caught:
        mapper(sections)
    assert (caught.value.line, caught.value.column) == (10, 10)


def test_a_hash_is_keyed_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hash is HMAC-SHA256 of purpose and string under the secret, and the mapper shows only a fingerprint; `hash` of
    a property replaces it, and leaves out what is not there. Personal data is never hashed without a key, because such
    a hash can be looked up."""
    monkeypatch.setenv("BACKCAST_HASH_KEY", "s3cret")
    expected = hmac.new(b"s3cret", b"mail\x1fada@example.com", hashlib.sha256).hexdigest()
    assert value("{hash: a, key: mail}", '"a":"ada@example.com"') == f'"{expected}"'
    made = mapper(f"{SET}{{hash: a, key: mail}}\n")
    assert made.hash_fingerprint == hmac.new(b"s3cret", b"backcast hash key", hashlib.sha256).hexdigest()[:8]
    assert "s3cret" not in repr(made)
    assert "s3cret" not in made.source
    sections = "properties:\n  drop: [name, user, at]\n  hash: {a: mail, b: mail}\n"
    assert properties(sections, '"a":"ada@example.com"') == {"a": f'"{expected}"'}
    monkeypatch.delenv("BACKCAST_HASH_KEY")
    with pytest.raises(UsageError) as caught:
        value("{hash: a, key: mail}", '"a":"x"')
    assert "BACKCAST_HASH_KEY" in caught.value.hint


def test_a_decoder_makes_rows_of_a_list() -> None:
    """`explode` gives one row for each object, with the outer columns in each."""
    made = mapper("decoder: {explode: events, prefix: outer_}\nproperties: {drop: [name, at]}\n")
    assert made.map_members is None
    rows = made.map_row(record('{"id":7,"events":[{"name":"a","user":"u","at":1},{"name":"b","user":"v","at":2}]}'))
    assert isinstance(rows, list)
    found = [(draft.event, draft.distinct_id, sorted(draft.properties)) for draft in rows]  # type: ignore[union-attr]
    assert found == [("a", "u", ["outer_id", "user"]), ("b", "v", ["outer_id", "user"])]
    assert made.map_row(record('{"id":7,"events":[]}')) == Skip("empty_row")
    assert made.map_row(record('{"id":7,"events":[1]}')).code == "bad_value"  # type: ignore[union-attr]


def test_a_row_is_refused_with_a_sentence_and_what_shows_it() -> None:
    """The reject has the mapping's own sentence, followed by the row's value; other rows are sent."""
    sections = f"{SET}{{first: [a, {{refuse: no such kind, of: b}}]}}\n"
    assert mapper(sections).map_row(record(f'{{{ROW},"b":"x"}}')) == RejectReason("bad_value", "no such kind: 'x'")
    assert mapper(sections).map_row(record(f"{{{ROW}}}")) == RejectReason("bad_value", "no such kind")


def test_a_word_is_the_value_of_the_setting() -> None:
    """And never read as a column."""
    for kind in ("team", "a"):
        assert value("{word: kind, default: company}", '"a":1.10', kind=kind) == f'"{kind}"'


def test_the_opened_object_is_given_whole_to_every_reader() -> None:
    """As it was in the row, in its order, for a spread and for a value."""
    sections = "properties:\n  open: /p\n  rest: drop\n  drop: [b]\n  set: {copy: {opened: yes}}\n"
    made = properties(sections, '"p":{"b":1.10,"a":null,"c":"x"}')
    assert made == {"a": "null", "c": '"x"', "copy": '{"b":1.10,"a":null,"c":"x"}'}


@pytest.mark.parametrize("section", ["define:\n  all: {opened: yes}\n", ""])
def test_the_whole_row_has_the_columns_that_are_read_and_dropped(section: str) -> None:
    """Every section reads the row as it came."""
    source = '"@all"' if section else "{opened: yes}"
    sections = f"{section}properties:\n  drop: [name, user, at]\nperson:\n  spread_set: [{{from: {source}}}]\n"
    outcome = mapper(sections).map_row(record(f'{{{ROW},"b":1}}'))
    assert isinstance(outcome, UnvalidatedEvent)
    assert outcome.note is not None
    assert outcome.note.set is not None
    assert sorted(outcome.note.set) == ["at", "b", "name", "user"]
    assert list(outcome.properties) == ["b"]
