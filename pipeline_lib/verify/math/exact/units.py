r"""Units after a number: an allow list of names, each with dimension and scale.

A word that is not listed is not a unit, because it may also negate the number. Units are equal if
dimension and scale are, whatever their names ("sq. in." and ``\text{inches}^2``).
"""

import re
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

_TABLE: Mapping[str, Mapping[str, str]] = {
    "length": {
        "1": "m meter metre mtr", "127/5000": "in inch", "381/1250": "ft foot", "1143/1250": "yd yard",
        "201168/125": "mi mile", "1/1000000": "micron",
    },
    "mass": {
        "1": "g gm gram", "1000": "kilo", "1000000": "t tonne", "45359237/100000": "lb pound",
        "45359237/1600000": "oz ounce", "907184740/1000": "ton",
    },
    "time": {"1": "s sec second", "60": "min minute", "3600": "h hr hour", "86400": "day", "604800": "wk week"},
    "month": {"1": "mo month", "12": "yr year", "120": "decade", "1200": "century"},
    "length^2": {"316160658/78125": "acre", "10000": "hectare"},
    "length^3": {
        "1/1000": "L l liter litre", "1/1000000": "cc", "3785411784/1000000000000": "gal gallon",
        "946352946/1000000000000": "qt quart", "473176473/1000000000000": "pt pint",
        "2365882365/10000000000000": "cup", "1478676478125/100000000000000000": "tbsp tablespoon",
        "492892159375/100000000000000000": "tsp teaspoon",
    },
    "dollar": {"1": "dollar buck usd", "1/100": "cent penny", "1/20": "nickel", "1/10": "dime"},
    "euro": {"1": "euro eur"}, "sterling": {"1": "gbp"}, "yen": {"1": "yen"}, "rupee": {"1": "rupee rs"},
    "peso": {"1": "peso"}, "angle": {"1": "degree deg"}, "radian": {"1": "radian rad"},
    "celsius": {"1": "celsius"}, "fahrenheit": {"1": "fahrenheit"}, "kelvin": {"1": "kelvin"},
    "energy": {"1": "J joule"}, "calorie": {"1": "calorie cal"}, "power": {"1": "W watt"},
    "force": {"1": "N newton"}, "pressure": {"1": "Pa pascal"}, "voltage": {"1": "V volt"},
    "current": {"1": "A ampere amp"}, "resistance": {"1": "ohm"}, "frequency": {"1": "Hz hertz"},
    "data": {"1": "b bit", "8": "B byte"}, "rate": {"1": "bpm"}, "unit": {"1": "unit"},
}  # fmt: skip
_SYMBOLS = ("m", "g", "s", "L", "l", "J", "cal", "W", "N", "Pa", "V", "A", "Hz", "b", "B")
_CAPITALS = ("J", "W", "N", "Pa", "V", "A", "b", "B")
_PREFIXES = {
    "k": ("kilo", "1000"), "M": ("mega", "1000000"), "G": ("giga", "1000000000"),
    "T": ("tera", "1000000000000"), "d": ("deci", "1/10"), "c": ("centi", "1/100"),
    "m": ("milli", "1/1000"), "n": ("nano", "1/1000000000"), "": ("micro", "1/1000000"),
}  # fmt: skip
_COMPOUND = {"mph": "miles per hour", "kph": "km per hour", "kmh": "km per hour", "fps": "feet per second", "kwh": "kW h"}  # fmt: skip
_POWER_WORDS = {"square": 2, "sq": 2, "squared": 2, "cubic": 3, "cu": 3, "cubed": 3}
_ENDING = re.compile(
    r"(?:[ .\-]+(?:in[ .\-]+)?(?:total|altogether|left|remaining|old|each|long|all))+$",
    re.IGNORECASE,
)
_TERM = re.compile(
    r"[ .\-]*(?P<per>(?:/|per\b|an?\b)[ .\-]*)?(?:(?P<before>square|sq|cubic|cu)\b[ .\-]*)?(?P<name>[A-Za-z]+)"
    r"[ .\-]*(?:\^ ?(?:\{ ?(?P<power>-?\d) ?\}|(?P<digit>-?\d))|(?P<after>squared|cubed)\b)?",
    re.IGNORECASE,
)

# A list, because any other word after a number may change its meaning ("5 squared", "5 at most").
_NOUNS = frozenset(
    """
    acorn ad adult album alligator angle animal answer ant apartment apple arm arrangement arrow
    artist artwork athlete attendee aunt baby badge bag bale ball balloon banana band bandage bar
    barrel baseball basket basketball bat batch bead bean bear bed bee beetle bell bench berry bike
    bill bird biscuit block blueberry board boat bolt bone book bookmark boot bottle bouquet bowl
    box boy bracelet branch brick bridge brother brownie brush bucket bug building bulb bun bunch
    bundle bunny burger bus bush business butterfly button cab cabin cabinet cake call camel camera
    can candle candy car card carrot cart carton case castle cat caterpillar cell center chair
    chapter character cheese cherry chicken child chip chocolate choice circle citizen city claim
    class classmate classroom clerk client clip clock cloud clown club coach coat coconut code coin
    colony color column combination comic computer cone container contestant cookie copy corner
    country couple course cousin cow crab cracker crate crayon cricket crow cucumber cupcake
    customer cut cycle daisy dancer date daughter decoration deer demerit desk diagonal diamond die
    digit dinner dish distribution divisor document dog doll dolphin domino donkey donut door
    doughnut dragon drawer drawing dress drink driver drop drum duck duckling eagle ear earring edge
    egg element elephant elf email employee engine envelope episode eraser error essay event exam
    example face factor fairy family fan farm farmer father feather fence fight figure file finger
    firefighter firework fish flag flavor flea flight floor flower fly folder follower fork forest
    fountain fox fraction freckle friend frog fruit function game garden gate gem ghost gift giraffe
    girl glass glove goal goat goldfish goose grade grandchild grape graph group guest guitar
    gumball guppy guy hamburger hammer hamster hand handshake hat head heart helmet hen herd hill
    hole home hook horn horse hotdog hotel house hunter insect integer invitation island item jacket
    jar jellybean jet job joke judge juice jump keeper key kid kitchen kite kitten knife knight knot
    label lace ladder lady lamb lamp lap layer leaf league leg lemon lesson letter level library
    light lime lion lizard load loaf locker lollipop loop loss machine magazine mail man mango map
    marble mark marker marshmallow mask mat match matchstick meal meatball medal melon member
    message method mistake model monkey monster mosquito mother motorcycle mountain mouse mouth
    movie muffin mug multiple museum mushroom nail name napkin necklace needle neighbor nest
    newspaper night notebook note number nurse nut object octopus office officer onion orange
    orchard order orphan outcome outfit owl owner oyster pack package packet page painting pair pan
    pancake panel panther paper parcel parent park parrot part participant partition partner
    passenger path patient paw pawn peach peacock pear pearl pebble pen pencil penguin people pepper
    permutation person pet petal phone photo piano pick picture pie piece pig pigeon pill pillow
    pilot pin pineapple pipe pirate pizza place plan plane planet plant plate player plum pocket
    poem point pole policeman pond pony pool position post postcard poster pot potato present
    president prize problem product program project puppy purse puzzle pyramid question quilt quiz
    rabbit raccoon rack radio rat record rectangle relative ribbon rider ring river road robin robot
    rock roll roof room rope rose round route row runner sack sailor salad sale sandwich sausage
    scarf school scientist scoop score seagull seal seashell season seat seed sentence series
    serving session set shape share shark sheep sheet shelf shell ship shirt shoe shop shot show
    shrimp sibling side sign singer sister site situp skirt slice slide snack snail snake snowball
    snowflake sock soda sofa soldier solution son song spider spoon spot squirrel staff stair stamp
    star state station statue step stick sticker stone store story straw strawberry street string
    stripe student subject subset suit suitcase sum sunflower surface survey swan sweater sweet
    swing symbol table tablet tail tank tape task taxi teacher team tent term test text ticket tie
    tiger tile tire toddler token tomato tool tooth toothpick touchdown towel tower town toy track
    train tray treat tree triangle trip trophy truck trumpet try tub tube tulip turkey turn turtle
    twig uncle value vampire van variable vase vegetable vehicle vertex video village violin visit
    visitor volunteer vote voter wagon waiter walk wall watch watermelon way whale wheel whistle
    widget win window wing witness wolf woman word worker world worm zebra zero zombie
    """.split()  # noqa: SIM905 - readable as text
)
_IRREGULAR = {
    "children": "child", "men": "man", "women": "woman", "feet": "foot", "teeth": "tooth", "geese": "goose",
    "mice": "mouse", "dice": "die", "leaves": "leaf", "loaves": "loaf", "knives": "knife", "shelves": "shelf",
    "wolves": "wolf", "scarves": "scarf", "elves": "elf", "vertices": "vertex", "grandchildren": "grandchild",
    "quizzes": "quiz", "inches": "inch", "pennies": "penny", "centuries": "century",
}  # fmt: skip
_PLAIN: Mapping[str, tuple[str, Fraction]] = {
    name: (dimension, Fraction(scale))
    for dimension, scales in _TABLE.items()
    for scale, names in scales.items()
    for name in names.split()
}
_NAMES = {
    letter + name: (_PLAIN[name][0], _PLAIN[name][1] * Fraction(factor))
    for short, (word, factor) in _PREFIXES.items()
    for letter, names in ((short, _SYMBOLS), (word, _PLAIN))
    for name in names
    if letter
} | dict(_PLAIN)
_CASELESS = {
    (name.lower(), unit)
    for name, unit in _NAMES.items()
    if len(name) > 1 and not name.endswith(_CAPITALS)
}
_NUM_UNITS = Counter(name for name, _ in _CASELESS)
_FOLDED = {name: unit for name, unit in _CASELESS if _NUM_UNITS[name] == 1}
"""Units by lower-case name, where the case distinguishes none: "Mg" is not "mg"."""


class Unit(NamedTuple):
    """Powers of dimensions, which are "#" and a noun for counted things, and scale in base units."""

    dimensions: frozenset[tuple[str, int]]
    scale: Fraction


def ratio(gold: Unit, answer: Unit) -> Fraction | None:
    """Size of one ``answer`` unit in ``gold`` units; None if their dimensions differ."""
    powers = [dict(unit.dimensions) for unit in (gold, answer)]
    # The word "units" stands for any unit.
    if {"unit"} in map(set, powers) and sum(powers[0].values()) == sum(powers[1].values()):
        return Fraction(1)
    return answer.scale / gold.scale if gold.dimensions == answer.dimensions else None


def count_noun(word: str) -> str | None:
    """The singular of a lower-case noun for things that are counted; None for any other word."""
    forms = (word, _IRREGULAR.get(word), word.removesuffix("s"), word.removesuffix("es"))
    singular = f"{word[:-3]}y" if word.endswith("ies") else None
    return next((form for form in (*forms, singular) if form in _NOUNS), None)


def _look_up(word: str) -> tuple[str, Fraction] | None:
    """Dimension and scale of a unit's name, in the singular or the plural."""
    lower = word.lower()
    short = word.removesuffix("s") if len(word) > 2 else word
    singular = _IRREGULAR.get(lower, short.lower())
    known = _NAMES.get(word) or _NAMES.get(short) or _FOLDED.get(lower) or _FOLDED.get(singular)
    if known is None and (noun := count_noun(lower)):
        known = f"#{noun}", Fraction(1)
    return known


@lru_cache(maxsize=4096)
def parse_unit(phrase: str) -> Unit | None:
    r"""The unit named by a phrase such as "square feet", "km/h" or "cm^2"; None if unknown.

    The phrase has no ``\text``. It may end in words such as "left" or "in total".
    """
    phrase = re.sub(r"\b([kMGT]?W)h\b", r"\1 h", _ENDING.sub("", phrase.strip(" .-")))
    phrase = re.sub("[A-Za-z]+", lambda word: _COMPOUND.get(word[0].lower(), word[0]), phrase)
    powers: Counter[str] = Counter()
    scale = Fraction(1)
    sign, place = 1, 0
    while place < len(phrase):
        term = _TERM.match(phrase, place)
        known = _look_up(term["name"]) if term and (place or not term["per"]) else None
        if term is None or known is None:
            return None
        sign = -1 if term["per"] else sign
        power = sign * int(term["power"] or term["digit"] or 1)
        for word in (term["before"], term["after"]):
            power *= _POWER_WORDS[word.lower()] if word else 1
        dimension, _, root = known[0].partition("^")
        powers[dimension] += power * int(root or 1)
        scale *= known[1] ** power
        place = term.end()
    dimensions = frozenset((name, power) for name, power in powers.items() if power)
    return Unit(dimensions=dimensions, scale=scale) if phrase else None
