"""Nouns for counted things in word problems: units without a dimension.

A list, because any other word after a number may change its meaning ("5 squared", "5 at most").
Singular forms; `count_noun` accepts plurals as well.
"""

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
    "quizzes": "quiz", "persons": "person",
}  # fmt: skip


def count_noun(word: str) -> str | None:
    """The singular of a lower-case noun for things that are counted; None for any other word."""
    forms = (word, _IRREGULAR.get(word), word.removesuffix("s"), word.removesuffix("es"))
    singular = f"{word[:-3]}y" if word.endswith("ies") else None
    return next((form for form in (*forms, singular) if form in _NOUNS), None)
