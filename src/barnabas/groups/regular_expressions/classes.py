"""Named sets of characters: which characters of ASCII each has, and of which kind any other character is.

Always holds: a name that RE2 knows is here, even where no character of ASCII is of that kind: `\\p{Greek}` is a valid
pattern that matches no topic.
"""

import unicodedata

CHARACTERS = frozenset(chr(number) for number in range(128))

_LOWER = frozenset("abcdefghijklmnopqrstuvwxyz")
_UPPER = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_DIGITS = frozenset("0123456789")
_LETTERS = _LOWER | _UPPER
_NONE: frozenset[str] = frozenset()
_CONTROL = frozenset(chr(number) for number in (*range(32), 127))
_VISIBLE = CHARACTERS - _CONTROL - {" "}
_PUNCTUATION = _VISIBLE - _LETTERS - _DIGITS
_SYMBOLS = frozenset("$+<=>^`|~")  # what Unicode does not count among punctuation
WORD = _LETTERS | _DIGITS | {"_"}

PERL = {"d": _DIGITS, "s": frozenset("\t\n\f\r "), "w": WORD}  # in upper case the complement

POSIX = {
    "alnum": _LETTERS | _DIGITS,
    "alpha": _LETTERS,
    "ascii": CHARACTERS,
    "blank": frozenset(" \t"),
    "cntrl": _CONTROL,
    "digit": _DIGITS,
    "graph": _VISIBLE,
    "lower": _LOWER,
    "print": _VISIBLE | {" "},
    "punct": _PUNCTUATION,
    "space": frozenset("\t\n\v\f\r "),
    "upper": _UPPER,
    "word": WORD,
    "xdigit": frozenset("0123456789abcdefABCDEF"),
}

# General categories and scripts of Unicode, by the names that RE2 takes.
_UNICODE = {
    "Any": CHARACTERS,
    "C": _CONTROL,
    "Cc": _CONTROL,
    "L": _LETTERS,
    "Ll": _LOWER,
    "Lu": _UPPER,
    "N": _DIGITS,
    "Nd": _DIGITS,
    "P": _PUNCTUATION - _SYMBOLS,
    "Pc": frozenset("_"),
    "Pd": frozenset("-"),
    "Pe": frozenset(")]}"),
    "Po": frozenset("!\"#%&'*,./:;?@\\"),
    "Ps": frozenset("([{"),
    "S": _SYMBOLS,
    "Sc": frozenset("$"),
    "Sk": frozenset("^`"),
    "Sm": frozenset("+<=>|~"),
    "Z": frozenset(" "),
    "Zs": frozenset(" "),
    "Latin": _LETTERS,
    "Common": CHARACTERS - _LETTERS,
}
_OF_OTHER_CHARACTERS = """
    Cf Co Cs Lm Lo Lt M Mc Me Mn Nl No Pf Pi So Zl Zp
    Adlam Ahom Anatolian_Hieroglyphs Arabic Armenian Avestan Balinese Bamum Bassa_Vah Batak Bengali Bhaiksuki Bopomofo
    Brahmi Braille Buginese Buhid Canadian_Aboriginal Carian Caucasian_Albanian Chakma Cham Cherokee Chorasmian Coptic
    Cuneiform Cypriot Cypro_Minoan Cyrillic Deseret Devanagari Dives_Akuru Dogra Duployan Egyptian_Hieroglyphs Elbasan
    Elymaic Ethiopic Georgian Glagolitic Gothic Grantha Greek Gujarati Gunjala_Gondi Gurmukhi Han Hangul
    Hanifi_Rohingya Hanunoo Hatran Hebrew Hiragana Imperial_Aramaic Inherited Inscriptional_Pahlavi
    Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kayah_Li Kharoshthi Khitan_Small_Script Khmer Khojki
    Khudawadi Lao Lepcha Limbu Linear_A Linear_B Lisu Lycian Lydian Mahajani Makasar Malayalam Mandaic Manichaean
    Marchen Masaram_Gondi Medefaidrin Meetei_Mayek Mende_Kikakui Meroitic_Cursive Meroitic_Hieroglyphs Miao Modi
    Mongolian Mro Multani Myanmar Nabataean Nandinagari New_Tai_Lue Newa Nko Nushu Nyiakeng_Puachue_Hmong Ogham
    Ol_Chiki Old_Hungarian Old_Italic Old_North_Arabian Old_Permic Old_Persian Old_Sogdian Old_South_Arabian
    Old_Turkic Old_Uyghur Oriya Osage Osmanya Pahawh_Hmong Palmyrene Pau_Cin_Hau Phags_Pa Phoenician Psalter_Pahlavi
    Rejang Runic Samaritan Saurashtra Sharada Shavian Siddham SignWriting Sinhala Sogdian Sora_Sompeng Soyombo
    Sundanese Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Takri Tamil Tangsa Tangut Telugu Thaana
    Thai Tibetan Tifinagh Tirhuta Toto Ugaritic Unknown Vai Vithkuqi Wancho Warang_Citi Yezidi Yi Zanabazar_Square
"""
_EMPTY_CLASSES = frozenset(_OF_OTHER_CHARACTERS.split())


def unicode_class(name: str) -> frozenset[str] | None:
    """None where there is no such class."""
    return _NONE if name in _EMPTY_CLASSES else _UNICODE.get(name)


def complement(characters: frozenset[str]) -> frozenset[str]:
    return CHARACTERS - characters


def both_cases(characters: frozenset[str]) -> frozenset[str]:
    return frozenset(each for character in characters for each in (character.lower(), character.upper()))


# Letters that have more cases than two, or whose other case Python writes as several characters.
_LARGER_ORBITS = (
    "Kk\u212a Ss\u017f \xb5\u039c\u03bc \xc5\xe5\u212b \xdf\u1e9e \u01c4\u01c5\u01c6 \u01c7\u01c8\u01c9 "
    "\u01ca\u01cb\u01cc \u01f1\u01f2\u01f3 \u0345\u0399\u03b9\u1fbe \u0392\u03b2\u03d0 \u0395\u03b5\u03f5 "
    "\u0398\u03b8\u03d1\u03f4 \u039a\u03ba\u03f0 \u03a0\u03c0\u03d6 \u03a1\u03c1\u03f1 \u03a3\u03c2\u03c3 "
    "\u03a6\u03c6\u03d5 \u03a9\u03c9\u2126 \u1e60\u1e61\u1e9b"
)
LARGER_ORBITS = {each: orbit for orbit in _LARGER_ORBITS.split() for each in orbit}


def between(first: str, last: str, fold_case: bool) -> frozenset[str]:
    """The characters from first to last, both included."""
    if not fold_case:
        return frozenset(each for each in CHARACTERS if first <= each <= last)
    return frozenset(
        each
        for each in CHARACTERS
        if any(first <= case <= last for case in LARGER_ORBITS.get(each, (each.lower(), each.upper())))
    )


# Beyond ASCII


def _is_category(name: str) -> bool:
    return len(name) <= 2 and name != "Yi"


_UNASSIGNED = "Cn"  # which RE2 counts to no category
_SCRIPTS_BY_NAME = {
    name.upper().replace("_", " "): name for name in (*_EMPTY_CLASSES, "Latin") if not _is_category(name)
}
_SCRIPTS_BY_NAME["CJK"] = "Han"
_WORDS_MAX = 3  # in the name of a script


def is_of_kind(character: str, name: str) -> bool:
    """Whether RE2's class of this name has the character, which is not of ASCII."""
    if name == "Any":
        return True
    if _is_category(name):
        category = unicodedata.category(character)
        return category.startswith(name) and category != _UNASSIGNED
    return script(character) == name


def script(character: str) -> str:
    """By the character's name: Python has no table of scripts."""
    words = unicodedata.name(character, "").replace("-", " ").split()
    for count in range(_WORDS_MAX, 0, -1):
        found = _SCRIPTS_BY_NAME.get(" ".join(words[:count]))
        if found is not None:
            return found
    return "Inherited" if unicodedata.category(character) in ("Mn", "Me") else "Common"
