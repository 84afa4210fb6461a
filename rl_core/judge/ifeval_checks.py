"""The 25 verifiable instructions of IFEval as registered checks ``ifeval.<instruction id>``.

Own code after the published definitions (arXiv 2311.07911, table of instructions). Sentence, capital
word and language rules need no model: see ``text_units`` and ``language``. An empty answer meets nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rl_core.judge.checks import register
from rl_core.judge.language import LANGUAGES, detect_language
from rl_core.judge.text_units import count_capital_words, count_sentences, count_words
from rl_core.task import Task

Verdict = bool | None


@dataclass(frozen=True)
class Instruction:
    """``params``: names and types it needs; ``text``: readable criterion; ``words``: shortest answer, roughly.

    ``words`` is what the row filter of ``rl_core.datasets.ifeval`` goes by.
    """

    params: Mapping[str, type]
    text: Callable[..., str]
    words: Callable[..., int]


INSTRUCTIONS: dict[str, Instruction] = {}

_RELATIONS = ("at least", "less than")


def _instruction(
    name: str, text: Callable[..., str], words: Callable[..., int] = lambda: 1, **params: type
) -> Callable[[Callable[..., Verdict]], Callable[..., Verdict]]:
    def add(fn: Callable[..., Verdict]) -> Callable[..., Verdict]:
        def check(completion: str, task: Task, **kwargs: Any) -> Verdict:
            return fn(completion, **kwargs) if completion.strip() else False

        INSTRUCTIONS[name] = Instruction(params, text, words)
        register(f"ifeval.{name}")(check)
        return fn

    return add


def _holds(count: int, relation: str, bound: int) -> bool:
    if relation == "at least":
        return count >= bound
    if relation == "less than":
        return count < bound
    raise ValueError(f"relation must be one of {_RELATIONS}, not {relation!r}")


def _if_least(relation: str, words: int) -> int:
    return words if relation == "at least" else 1


@_instruction(
    "keywords:existence",
    lambda keywords: "Includes the keywords: " + ", ".join(keywords),
    lambda keywords: 2 * len(keywords),
    keywords=list,
)
def _existence(text: str, keywords: list[str]) -> Verdict:
    return all(re.search(re.escape(k), text, re.IGNORECASE) for k in keywords)


@_instruction(
    "keywords:frequency",
    lambda keyword, frequency, relation: f"Uses the word '{keyword}' {relation} {frequency} times",
    lambda keyword, frequency, relation: _if_least(relation, 3 * frequency),
    keyword=str,
    frequency=int,
    relation=str,
)
def _frequency(text: str, keyword: str, frequency: int, relation: str) -> Verdict:
    return _holds(len(re.findall(re.escape(keyword), text, re.IGNORECASE)), relation, frequency)


@_instruction(
    "keywords:forbidden_words",
    lambda forbidden_words: "Does not use the words: " + ", ".join(forbidden_words),
    forbidden_words=list,
    words=lambda forbidden_words: 1,
)
def _forbidden(text: str, forbidden_words: list[str]) -> Verdict:
    return not any(re.search(rf"\b{re.escape(w)}\b", text, re.IGNORECASE) for w in forbidden_words)


@_instruction(
    "keywords:letter_frequency",
    lambda letter, let_frequency, let_relation: f"The letter '{letter}' appears {let_relation} {let_frequency} times",
    lambda letter, let_frequency, let_relation: _if_least(let_relation, let_frequency),
    letter=str,
    let_frequency=int,
    let_relation=str,
)
def _letters(text: str, letter: str, let_frequency: int, let_relation: str) -> Verdict:
    return _holds(text.lower().count(letter.lower()), let_relation, let_frequency)


@_instruction(
    "language:response_language",
    lambda language: f"Is written in the language '{language}' only",
    lambda language: 1,
    language=str,
)
def _language(text: str, language: str) -> Verdict:
    if language not in LANGUAGES:
        return None
    return detect_language(text) == language


@_instruction(
    "length_constraints:number_sentences",
    lambda relation, num_sentences: f"Has {relation} {num_sentences} sentences",
    lambda relation, num_sentences: _if_least(relation, 8 * num_sentences),
    relation=str,
    num_sentences=int,
)
def _sentences(text: str, relation: str, num_sentences: int) -> Verdict:
    return _holds(count_sentences(text), relation, num_sentences)


@_instruction(
    "length_constraints:number_words",
    lambda relation, num_words: f"Has {relation} {num_words} words",
    lambda relation, num_words: _if_least(relation, num_words),
    relation=str,
    num_words=int,
)
def _number_words(text: str, relation: str, num_words: int) -> Verdict:
    return _holds(count_words(text), relation, num_words)


@_instruction(
    "length_constraints:number_paragraphs",
    lambda num_paragraphs: f"Has {num_paragraphs} paragraphs, separated by ***",
    lambda num_paragraphs: 10 * num_paragraphs,
    num_paragraphs=int,
)
def _paragraphs(text: str, num_paragraphs: int) -> Verdict:
    parts = [p.strip() for p in text.split("***")]
    inner = parts[1:-1] if len(parts) > 1 else []
    return all(inner) and sum(map(bool, parts)) == num_paragraphs


@_instruction(
    "length_constraints:nth_paragraph_first_word",
    lambda num_paragraphs, nth_paragraph, first_word: (
        f"Has {num_paragraphs} paragraphs, separated by empty lines, and "
        f"paragraph {nth_paragraph} starts with the word '{first_word}'"
    ),
    lambda num_paragraphs, nth_paragraph, first_word: 10 * num_paragraphs,
    num_paragraphs=int,
    nth_paragraph=int,
    first_word=str,
)
def _nth_paragraph(text: str, num_paragraphs: int, nth_paragraph: int, first_word: str) -> Verdict:
    parts = text.split("\n\n")
    if sum(bool(p.strip()) for p in parts) != num_paragraphs or not 1 <= nth_paragraph <= num_paragraphs:
        return False
    words = parts[nth_paragraph - 1].split()
    if not words:
        return False
    return re.split(r"[.,?!'\"]", words[0].lstrip("'\""))[0].lower() == first_word.lower()


@_instruction(
    "detectable_content:number_placeholders",
    lambda num_placeholders: f"Has at least {num_placeholders} placeholders in square brackets, such as [address]",
    lambda num_placeholders: 2 * num_placeholders,
    num_placeholders=int,
)
def _placeholders(text: str, num_placeholders: int) -> Verdict:
    return len(re.findall(r"\[.*?\]", text)) >= num_placeholders


@_instruction(
    "detectable_content:postscript",
    lambda postscript_marker: f"Ends with a postscript that starts with {postscript_marker}",
    lambda postscript_marker: 8,
    postscript_marker=str,
)
def _postscript(text: str, postscript_marker: str) -> Verdict:
    letters = re.findall(r"\w", postscript_marker.lower())
    if "".join(letters) in ("ps", "pps"):
        # "P. S." counts as "P.S."; the last stop is needed for P.S. only.
        pattern = r"\.\s?".join(letters) + (r"\." if len(letters) == 2 else "")
    else:
        pattern = re.escape(postscript_marker.lower())
    return bool(re.search(pattern, text.lower()))


@_instruction(
    "detectable_format:number_bullet_lists",
    lambda num_bullets: f"Has exactly {num_bullets} bullet points (lines that start with * or -)",
    lambda num_bullets: 5 * num_bullets,
    num_bullets=int,
)
def _bullets(text: str, num_bullets: int) -> Verdict:
    return len(re.findall(r"^\s*(?:\*[^*]|-)", text, re.MULTILINE)) == num_bullets


@_instruction(
    "detectable_format:constrained_response",
    lambda: "Contains one of: 'My answer is yes.', 'My answer is no.', 'My answer is maybe.'",
    lambda: 4,
)
def _constrained(text: str) -> Verdict:
    return any(f"My answer is {a}." in text for a in ("yes", "no", "maybe"))


@_instruction(
    "detectable_format:number_highlighted_sections",
    lambda num_highlights: f"Highlights at least {num_highlights} sections in markdown, such as *this*",
    lambda num_highlights: 4 * num_highlights,
    num_highlights=int,
)
def _highlights(text: str, num_highlights: int) -> Verdict:
    single = [m for m in re.findall(r"\*([^\n*]*)\*", text) if m.strip()]
    double = [m for m in re.findall(r"\*\*([^\n*]*)\*\*", text) if m.strip()]
    return len(single) + len(double) >= num_highlights


@_instruction(
    "detectable_format:multiple_sections",
    lambda section_spliter, num_sections: f"Has {num_sections} sections, each marked '{section_spliter} X'",
    lambda section_spliter, num_sections: 10 * num_sections,
    section_spliter=str,
    num_sections=int,
)
def _sections(text: str, section_spliter: str, num_sections: int) -> Verdict:
    return len(re.findall(rf"{re.escape(section_spliter)}\s?\d+", text)) >= num_sections


@_instruction(
    "detectable_format:json_format", lambda: "The whole answer is JSON (a markdown fence is allowed)", lambda: 8
)
def _json(text: str) -> Verdict:
    body = re.sub(r"^```(?:json)?", "", text.strip(), count=1, flags=re.IGNORECASE).removesuffix("```").strip()
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return False
    return True


@_instruction(
    "detectable_format:title", lambda: "Has a title wrapped in double angular brackets, such as <<title>>", lambda: 4
)
def _title(text: str) -> Verdict:
    return any(m.strip("<> ") for m in re.findall(r"<<[^\n]+>>", text))


@_instruction("combination:two_responses", lambda: "Gives two different responses, separated by ******", lambda: 12)
def _two(text: str) -> Verdict:
    parts = [p.strip() for p in text.split("******")]
    kept = [p for p in parts if p]
    return all(parts[1:-1]) and len(kept) == 2 and kept[0] != kept[1]


@_instruction(
    "combination:repeat_prompt",
    lambda prompt_to_repeat: "First repeats the request word for word, then answers",
    lambda prompt_to_repeat: count_words(prompt_to_repeat) + 10,
    prompt_to_repeat=str,
)
def _repeat(text: str, prompt_to_repeat: str) -> Verdict:
    return text.strip().lower().startswith(prompt_to_repeat.strip().lower())


@_instruction(
    "startend:end_checker",
    lambda end_phrase: f"Ends with the exact phrase '{end_phrase}' and nothing after it",
    lambda end_phrase: count_words(end_phrase) + 8,
    end_phrase=str,
)
def _end(text: str, end_phrase: str) -> Verdict:
    return text.strip().strip('"').lower().endswith(end_phrase.strip().lower())


@_instruction("startend:quotation", lambda: "The whole answer is wrapped in double quotation marks", lambda: 3)
def _quotation(text: str) -> Verdict:
    body = text.strip()
    return len(body) > 1 and body[0] == body[-1] == '"'


@_instruction(
    "change_case:capital_word_frequency",
    lambda capital_frequency, capital_relation: (
        f"Has {capital_relation} {capital_frequency} words in all capital letters"
    ),
    lambda capital_frequency, capital_relation: _if_least(capital_relation, 2 * capital_frequency),
    capital_frequency=int,
    capital_relation=str,
)
def _capital_words(text: str, capital_frequency: int, capital_relation: str) -> Verdict:
    return _holds(count_capital_words(text), capital_relation, capital_frequency)


@_instruction("change_case:english_capital", lambda: "Is in English, in capital letters only")
def _all_capital(text: str) -> Verdict:
    return text.isupper() and detect_language(text) in ("en", None)


@_instruction("change_case:english_lowercase", lambda: "Is in English, in lowercase letters only")
def _all_lower(text: str) -> Verdict:
    return text.islower() and detect_language(text) in ("en", None)


@_instruction("punctuation:no_comma", lambda: "Does not use any commas")
def _no_comma(text: str) -> Verdict:
    return "," not in text
