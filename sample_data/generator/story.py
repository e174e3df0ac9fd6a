"""Two years of Fernway, a task list for teams that does not exist: a story that `story_layouts` writes for each tool.

People come to the site, some sign up, in the browser or in an app, and some of those work in teams that pay. Use grows,
is lower on weekends, and rises in the weeks of a campaign. The troubles of real exports are in it: four days on which
nothing was recorded, requests that were sent twice, phones that were offline for hours, an event that was renamed, a
server that sent `undefined` as a user, and phones whose clock stood in 2081.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

from sample_data.generator.spelling import uuid4

FIRST_DAY, DAYS = date(2023, 3, 6), 728
CAMPAIGN = (date(2024, 9, 9), date(2024, 10, 13))
"""The first and the last day of the autumn campaign."""
GAP = (datetime(2024, 2, 12, 22, tzinfo=UTC), datetime(2024, 2, 17, 1, tzinfo=UTC))
"""Nothing was recorded: no event on four days of UTC, nor on four of Berlin."""
MOVED = (datetime(2024, 5, 31, 21, 30, tzinfo=UTC), datetime(2024, 6, 1, 4, 30, tzinfo=UTC))
"""The night in which the team closed Berlin and opened New York, and the service stood still."""
RENAMED = date(2023, 11, 20)
"""The web calls `task_completed` `Task Completed` from this day on; the apps follow within days."""
WEEK = (1.0, 1.08, 1.1, 1.04, 0.86, 0.36, 0.44)
HOURS = (1, 1, 0, 0, 0, 1, 3, 8, 14, 19, 20, 18, 14, 16, 19, 18, 15, 12, 9, 8, 9, 8, 5, 2)


@dataclass(frozen=True, slots=True)
class Place:
    """Where somebody lives, and how many of a hundred do."""

    city: str
    region: str
    code: str
    country: str
    zone: ZoneInfo
    share: int


PLACES = tuple(
    Place(city, region, code, country, ZoneInfo(zone), share)
    for city, region, code, country, zone, share in (
        ("Berlin", "Berlin", "DE", "Germany", "Europe/Berlin", 26),
        ("Kraków", "Małopolskie", "PL", "Poland", "Europe/Warsaw", 12),
        ("Lyon", "Auvergne-Rhône-Alpes", "FR", "France", "Europe/Paris", 14),
        ("London", "England", "GB", "United Kingdom", "Europe/London", 16),
        ("New York", "New York", "US", "United States", "America/New_York", 20),
        ("Toronto", "Ontario", "CA", "Canada", "America/Toronto", 12),
    )
)
PAGES = (("/", "Fernway"), ("/pricing", "Pricing"), ("/templates", "Templates"), ("/blog/lists", "Lists that end"))
BOARDS = ("Home", "Launch", "Hiring", "Ideas", "Sprint", "Café")
SCREENS = ("Today", "Board", "Inbox", "Settings")
REFERRERS = ("", "", "", "https://search.example/", "https://search.example/", "https://forum.example/lists")
AUTUMN = {"utm_source": "newsletter", "utm_medium": "email", "utm_campaign": "autumn-plans"}
ADS = {"utm_source": "ads", "utm_medium": "cpc", "utm_campaign": "autumn-plans"}


@dataclass(slots=True)
class Person:
    """A visitor, who is a user once `user` is there. `keen` is how often they come, compared with others."""

    device: str
    platform: str
    place: Place
    user: str = ""
    team: str = ""
    keen: float = 0.0
    profile: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Call:
    """What a library sent: an `event`, an `identify` with the person's profile, or a `group` with the team's.

    `at` is the true time, and what it was received at; without a `person` a server sent it, and `user` is all that it
    knows. `page` is that of the browser, `utm` the campaign in its address, `own` what the product adds.
    """

    number: int
    kind: str
    name: str
    at: datetime
    received: datetime
    person: Person | None
    user: str
    team: str = ""
    page: tuple[str, str] = ("", "")
    referrer: str = ""
    utm: dict[str, str] = field(default_factory=dict)
    own: dict[str, Any] = field(default_factory=dict)

    @property
    def platform(self) -> str:
        return self.person.platform if self.person else "server"

    @property
    def url(self) -> str:
        search = "&".join(f"{name}={value}" for name, value in self.utm.items())
        return f"https://fernway.example{self.page[0]}{'?' if search else ''}{search}"


class Story:
    """Lives the days one by one, and keeps the calls."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.calls: list[Call] = []
        self.users: list[Person] = []
        self.teams: dict[str, Person] = {}
        self.people = 0
        self.made = 0
        self.now = datetime(2023, 3, 6, tzinfo=UTC)

    def add(self, name: str, person: Person | None, kind: str = "event", **more: Any) -> None:
        """Append one call, some seconds after the last one, unless it is in a time of which nothing was kept."""
        rng = self.rng
        self.made += 1
        self.now += timedelta(seconds=rng.randrange(2, 90))
        late = timedelta(seconds=rng.randrange(1, 6))
        if person and person.platform != "web" and rng.random() < 0.04:
            late = timedelta(minutes=rng.randrange(20, 500))  # the phone was offline
        if any(start <= self.now < end for start, end in (GAP, MOVED)):
            return
        known = {"user": person.user, "team": person.team} if person else {}
        self.calls.append(Call(0, kind, name, self.now, self.now + late, person, **(known | more)))

    def live(self) -> None:
        """All days, in order. A few people used the product before."""
        for place in PLACES * 2:
            person = Person(uuid4(self.rng), self.rng.choice(("web", "web", "ios")), place)
            self.join(FIRST_DAY, person)
        for number in range(DAYS):
            day = FIRST_DAY + timedelta(number)
            campaign = CAMPAIGN[0] <= day <= CAMPAIGN[1]
            if day.day == 1:
                self.bill(day)
            enough = self.made + self.busy(day) * (15 + 26 * number / DAYS)
            while self.made < enough:
                if self.rng.random() < (0.42 if campaign else 0.2):
                    self.visit(day, campaign)
                else:
                    self.work(day, self.rng.choices(self.users, [person.keen for person in self.users])[0])
            for person in self.users:
                person.keen *= 0.995 if person.team else 0.98

    def busy(self, day: date) -> float:
        """How much happens on a day, by the week, the holidays and the campaign."""
        quiet = 0.55 if (day.month, day.day) >= (12, 24) or (day.month, day.day) == (1, 1) else 1.0
        loud = 2.0 - 0.02 * (day - CAMPAIGN[0]).days if CAMPAIGN[0] <= day <= CAMPAIGN[1] else 1.0
        return WEEK[day.weekday()] * quiet * loud * (0.88 + 0.24 * self.rng.random())

    def begin(self, day: date, place: Place) -> None:
        hour = self.rng.choices(range(24), HOURS)[0]
        wall = datetime(day.year, day.month, day.day, hour, self.rng.randrange(60), tzinfo=place.zone)
        self.now = wall.astimezone(UTC)

    def visit(self, day: date, campaign: bool) -> None:
        """Somebody comes for the first time, looks around, and signs up or does not."""
        rng = self.rng
        platform = rng.choices(("web", "ios", "android"), (66, 20, 14))[0]
        person = Person(uuid4(rng), platform, rng.choices(PLACES, [place.share for place in PLACES])[0])
        self.begin(day, person.place)
        if platform == "web":
            utm = rng.choice((AUTUMN, AUTUMN, ADS, {})) if campaign else {}
            referrer = "" if utm else rng.choice(REFERRERS)
            self.add("$pageview", person, page=rng.choice(PAGES[:2]), utm=utm, referrer=referrer)
            for _ in range(rng.randrange(3)):
                self.add("$pageview", person, page=rng.choice(PAGES))
        else:
            self.add("Application Installed", person, own={"version": self.version(day)})
            self.add("$screen", person, own={"screen": "Welcome"})
        if rng.random() < 0.38:
            self.sign_up(day, person)

    def version(self, day: date) -> str:
        return f"{1 + (day - FIRST_DAY).days // 240}.{(day - FIRST_DAY).days % 240 // 30}"

    def sign_up(self, day: date, person: Person) -> None:
        rng = self.rng
        self.join(day, person)
        self.add("", person, "identify", own=dict(person.profile))
        self.add("Signed Up", person, own={"method": rng.choice(("email", "email", "google"))}, page=PAGES[0])
        if rng.random() < 0.14 or not self.teams:
            team = person.team = f"team-{100 + len(self.teams)}"
            self.teams[team] = person
            self.add("Team Created", person, own={"seats": rng.randrange(3, 12)})
            self.add("", person, "group", own={"name": f"Team {len(self.teams)}", "plan": "free"})
        elif rng.random() < 0.4:
            person.team = rng.choice(list(self.teams))
            self.add("Invite Accepted", person)

    def join(self, day: date, person: Person) -> None:
        """The person gets an account."""
        self.people += 1
        person.user, person.keen = f"user-{1000 + self.people}", 0.1 + 0.26 * self.rng.random()
        person.profile = {"email": f"{person.user}@mail.example", "plan": "free", "signed_up": day.isoformat()}
        self.users.append(person)

    def work(self, day: date, person: Person) -> None:
        """A session of somebody who is signed in."""
        rng = self.rng
        self.begin(day, person.place)
        board = rng.choice(BOARDS)
        page = (f"/boards/{board.lower()}", f"{board} – Fernway")
        if person.platform == "web":
            self.add("$pageview", person, page=page)
        else:
            self.add("Application Opened", person, own={"version": self.version(day)})
            self.add("$screen", person, own={"screen": rng.choice(SCREENS)})
        for _ in range(rng.randrange(1, 4)):
            what = rng.random()
            if what < 0.45:
                own = {"board": board, "due": rng.random() < 0.3, "words": rng.randrange(2, 14)}
                self.add("Task Created", person, own=own, page=page)
            elif what < 0.85:
                new = day >= RENAMED + timedelta({"web": 0, "ios": 3, "android": 5}[person.platform])
                own = {"board": board, "days_open": rng.randrange(30)}
                self.add("Task Completed" if new else "task_completed", person, own=own, page=page)
            elif what < 0.95:
                self.add("Board Shared", person, own={"board": board, "people": rng.randrange(1, 6)}, page=page)
            elif person.team and self.teams[person.team] is person and person.profile["plan"] == "free":
                self.upgrade(person, rng.randrange(3, 12))

    def upgrade(self, person: Person, seats: int) -> None:
        price = {"seats": seats, "revenue": 8 * seats, "currency": "EUR"}
        person.profile = person.profile | {"plan": "team", "seats": seats}
        self.add("Plan Upgraded", person, own={"plan": "team"} | price, page=PAGES[1])
        self.add("", person, "identify", own=dict(person.profile))
        self.add("", person, "group", own={"plan": "team", "seats": seats})

    def bill(self, day: date) -> None:
        """The server pays the invoices of the month; of some the user was not defined."""
        self.now = datetime(day.year, day.month, day.day, 9, tzinfo=UTC)
        for team, owner in self.teams.items():
            if owner.profile["plan"] == "team":
                lost = team == "team-103" and day.year == 2024 and day.month > 7
                user = "undefined" if lost else owner.user
                own = {"total": 8 * owner.profile["seats"], "currency": "EUR"}
                self.add("Invoice Paid", None, user=user, team=team, own=own)


def calls(seed: int = 2024) -> list[Call]:
    """The calls in the order in which they were received, the troubles included; the same for the same seed."""
    story = Story(seed)
    story.live()
    rng = Random(seed + 1)
    found = [replace(call, number=number) for number, call in enumerate(sorted(story.calls, key=lambda call: call.at))]
    for call in rng.sample(found, 90):
        found.append(replace(call, received=call.received + timedelta(seconds=rng.randrange(20, 90))))
    for number in rng.sample([call.number for call in found if call.platform == "android" and call.user], 4):
        found[number] = replace(found[number], at=found[number].at + timedelta(57 * 365))
    return sorted(found, key=lambda call: (call.received, call.number))
