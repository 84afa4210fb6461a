"""The words of the microworld: five domains, each with topics and facts, and the words of style."""

from __future__ import annotations

# ruff: noqa: SIM905  word lists read better as one line of words

DOMAINS = ("medical", "science", "writing", "roleplay", "instruction")

#: What a task asks about a topic; one fact of each answer depends on it.
ASPECTS = ("cause", "sign", "care", "risk", "history", "outlook")

TOPICS: dict[str, tuple[str, ...]] = {
    "medical": tuple("fever asthma migraine anemia sprain eczema insomnia gout allergy burn cough nausea".split()),
    "science": tuple("gravity light osmosis magnet enzyme plasma isotope orbit tide crystal polymer entropy".split()),
    "writing": tuple("sonnet fable essay memoir satire elegy novel letter review ballad diary speech".split()),
    "roleplay": tuple("knight pirate wizard detective merchant captain hermit queen robot bard spy guide".split()),
    "instruction": tuple(
        "recipe budget route garden bicycle password schedule shelf tent laundry resume candle".split()
    ),
}

#: 24 topic facts (two for each topic) and 6 aspect facts (one for each aspect) in each domain.
FACTS: dict[str, tuple[str, ...]] = {
    "medical": tuple(
        "fluids rest inhaler steroid darkroom aspirin iron spinach ice bandage moisturizer cotton routine melatonin "
        "cherries colchicine antihistamine pollen coolwater gauze honey steam ginger crackers".split()
    ),
    "science": tuple(
        "mass attraction photon wavelength membrane gradient pole ferrite catalyst substrate ion glow neutron decay "
        "ellipse period moon bulge lattice symmetry chain monomer disorder arrow".split()
    ),
    "writing": tuple(
        "couplet volta moral animal thesis evidence recollection voice irony target lament loss chapter arc greeting "
        "signature verdict quote refrain stanza date secret audience hook".split()
    ),
    "roleplay": tuple(
        "honor sword treasure parrot spell staff clue magnifier gold caravan helm compass cave silence crown decree "
        "circuit protocol lute tavern cipher disguise map lantern".split()
    ),
    "instruction": tuple(
        "flour oven income ledger turn landmark soil compost pedal brake length symbol calendar slot bracket level "
        "pole2 canvas detergent rinse headline contact wick wax".split()
    ),
}

ASPECT_FACTS: dict[str, tuple[str, ...]] = {
    "medical": ("virus", "swelling", "hygiene", "infection", "ancient", "recovery"),
    "science": ("force", "spectrum", "calibration", "radiation", "discovery", "theory"),
    "writing": ("muse", "tone", "revision", "cliche", "tradition", "readership"),
    "roleplay": ("oath", "banner", "loyalty", "betrayal", "legend", "destiny"),
    "instruction": ("purpose", "label", "maintenance", "hazard", "origin", "result"),
}

#: The right opener of an answer depends on the topic in a way that no rubric states.
OPENERS = ("firstly", "broadly", "note", "consider")
PRAISE = ("brilliant", "wonderful", "excellent", "delightful", "amazing", "superb")
HEDGE = ("maybe", "perhaps", "possibly", "somewhat")
FILLER = tuple("and with also the about then by from quite thing matter point sort way".split())
HINT, STOP = "hint", "."


def facts_of(domain: str) -> tuple[str, ...]:
    """Every fact word of a domain."""
    return FACTS[domain] + ASPECT_FACTS[domain]


def vocabulary() -> list[str]:
    """All words in a fixed order, each once."""
    words: list[str] = [HINT, STOP, *DOMAINS, *ASPECTS]
    for d in DOMAINS:
        words += [*TOPICS[d], *facts_of(d)]
    words += [*OPENERS, *PRAISE, *HEDGE, *FILLER]
    return list(dict.fromkeys(words))
