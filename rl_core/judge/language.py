"""Which language a text is in, by script, telling letters and stop words. No model, no data files.

Small on purpose: it decides between the 30 languages that IFEval asks for, on texts of a sentence
or more. A text without letters, or in a script it does not know, is in no language (None).
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

#: Unicode name prefix of a letter -> the only language we know in that script.
_ONE_SCRIPT = {
    "BENGALI": "bn", "THAI": "th", "TAMIL": "ta", "TELUGU": "te", "HANGUL": "ko", "HEBREW": "he",
    "KANNADA": "kn", "GUJARATI": "gu", "GURMUKHI": "pa", "MALAYALAM": "ml", "HIRAGANA": "ja", "KATAKANA": "ja",
}  # fmt: skip

#: In this order, the first whose own letters make 1 % of the text; the last where none does.
_LETTERS = {
    "ARABIC": {"ur": "ٹڈڑےںہھ", "fa": "پچژگکی", "ar": ""},
    "CYRILLIC": {"uk": "іїєґ", "ru": "ыэё", "bg": ""},
}

#: Case endings that are written onto the word; short texts often hold no stop word.
_ENDINGS = {
    "mr": ("ची", "चा", "चे", "च्या", "तात", "तो", "ून", "मध्ये", "ळ"),
    "ne": ("को", "लाई", "हरू", "छन्", "न्छ"),
}

_STOP_WORDS = {
    "LATIN": {
        "en": "the and of to in is that it for on with as are was be this have you not or at by from they an",
        "es": "el la los las de que y en un una por con para su se del al es lo como más pero está",
        "pt": "o a os as de que e em um uma por com para seu se do da não é dos das como mais mas está no na",
        "fr": "le la les des de que et en un une pour avec dans est du au pas qui sur ne ce vous nous je il",
        "de": "der die das und ist in zu den mit nicht von ein eine auf für sich dem des es sie ich wir auch",
        "it": "il lo la gli le di che e in un una per con non è del della sono si come più ma dei nel anche",
        "pl": "i w na z do nie się że jest to o jak po za od przez który są dla tym oraz ale czy może",
        "vi": "và của là có không được cho một trong người với các những đã để này khi từ đến tôi bạn ở",
        "sw": "na ya wa kwa ni katika la za kuwa hii cha kama yake watu wao lakini huo hilo pia hiyo yangu wako",
        "fi": "ja on ei se että hän oli joka mutta kun niin myös ovat tai kuin olla tämä sen ne voi jos hänen",
    },
    "DEVANAGARI": {
        "hi": "है हैं के का की में और से को पर यह था थे नहीं एक ने कि हो लिए भी इस तो कर",
        "mr": "आहे आहेत आणि च्या मध्ये हे ते या तो ती नाही होते एक केले करून साठी मी आपण त्या असे होता तुम्ही",
        "ne": "छ छन् हो को मा र ले लाई गर्न यो पनि थियो भएको एक हुन्छ गर्ने तर गरेको छैन हुन् यस तपाईं तपाईंको",
    },
}

LANGUAGES = frozenset(
    [*_ONE_SCRIPT.values(), *(c for group in (*_LETTERS.values(), *_STOP_WORDS.values()) for c in group)]
)


def detect_language(text: str) -> str | None:
    """ISO 639-1 code of the main language, None when it cannot be told."""
    scripts: Counter[str] = Counter()
    for ch in text[:5000]:
        if ch.isalpha():
            scripts[unicodedata.name(ch, "").split(" ", 1)[0]] += 1
    if not scripts:
        return None
    script = scripts.most_common(1)[0][0]
    if scripts["HIRAGANA"] + scripts["KATAKANA"] > 0.1 * sum(scripts.values()):
        return "ja"
    if script in _ONE_SCRIPT:
        return _ONE_SCRIPT[script]
    lower = text[:5000].lower()
    if script in _LETTERS:
        known = _LETTERS[script]
        enough = 0.01 * scripts.total()
        return next((k for k, own in known.items() if sum(map(lower.count, own)) >= enough and own), list(known)[-1])
    if script in _STOP_WORDS:
        words = Counter(_words(lower))
        scores = {code: sum(words[w] for w in stop.split()) for code, stop in _STOP_WORDS[script].items()}
        for code in scores.keys() & _ENDINGS.keys():
            scores[code] += sum(n for w, n in words.items() if len(w) > 3 and w.endswith(_ENDINGS[code]))
        top = max(scores, key=lambda code: scores[code])
        return top if scores[top] > 0 else None
    return None


def _words(text: str) -> list[str]:
    # Vowel signs are not letters to \w, so words are what stands between spaces and punctuation.
    return re.split(r"[\s.,;:!?()\[\]\"'“”‘’«»।*_/-]+", text)
