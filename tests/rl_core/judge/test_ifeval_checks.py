import json
from collections import Counter
from pathlib import Path

import pytest

from rl_core.judge.checks import get_check
from rl_core.judge.ifeval_checks import INSTRUCTIONS
from rl_core.judge.language import LANGUAGES, detect_language
from rl_core.judge.text_units import count_capital_words, count_sentences, count_words

ROOT = Path(__file__).parents[3]
FIXTURE = ROOT / "tests" / "data" / "ifeval"
SHARED = ROOT.parent / "shared" / "data" / "if_ifeval"


def check(name, text, **params):
    return get_check(f"ifeval.{name}")(text, None, **params)


def agreement(inputs, strict):
    """(agreeing, all) per instruction against published strict verdicts."""
    rows = {r["prompt"]: r for r in map(json.loads, inputs.read_text(encoding="utf-8").splitlines())}
    agree, total, negatives = Counter(), Counter(), Counter()
    for s in map(json.loads, strict.read_text(encoding="utf-8").splitlines()):
        kwargs = rows[s["prompt"]]["kwargs"]
        for name, kw, expected in zip(s["instruction_id_list"], kwargs, s["follow_instruction_list"], strict=True):
            got = check(name, s["response"], **{k: v for k, v in kw.items() if v is not None})
            agree[name] += got == expected
            total[name] += 1
            negatives[got == expected] += not expected
    return agree, total, negatives


def test_fixture_agrees_with_the_published_strict_results():
    agree, total, negatives = agreement(FIXTURE / "input.jsonl", FIXTURE / "strict.jsonl")
    assert agree == total
    assert len(total) >= 20
    assert negatives[True] >= 6


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data folder is not here")
def test_whole_file_agrees_with_the_published_strict_results():
    agree, total, negatives = agreement(SHARED / "input_data.a.jsonl", SHARED / "eval_results_strict.a.jsonl")
    assert set(total) == set(INSTRUCTIONS)
    assert agree.total() / total.total() >= 0.97
    assert negatives[True] / negatives.total() >= 0.9  # nine in ten are met, so agreement on the rest counts more
    assert all(agree[name] / total[name] >= 0.85 for name in total)


def test_there_are_25_and_an_empty_answer_meets_none():
    assert len(INSTRUCTIONS) == 25
    values = {list: ["a"], int: 1, str: "at least"}
    for name, instruction in INSTRUCTIONS.items():
        params = {p: values[kind] for p, kind in instruction.params.items()}
        assert check(name, " \n", **params) is False
        assert instruction.text(**params)
        assert instruction.words(**params) >= 1


@pytest.mark.parametrize(
    ("name", "params", "good", "bad"),
    [
        ("keywords:existence", {"keywords": ["dog", "c++"]}, "The DOG likes C++", "the dog"),
        ("keywords:frequency", {"keyword": "war", "frequency": 2, "relation": "at least"}, "war, War", "war"),
        ("keywords:frequency", {"keyword": "war", "frequency": 2, "relation": "less than"}, "war", "war war"),
        ("keywords:forbidden_words", {"forbidden_words": ["cat"]}, "concatenate", "a Cat."),
        ("keywords:letter_frequency", {"letter": "j", "let_frequency": 2, "let_relation": "at least"}, "Jojo", "jam"),
        ("length_constraints:number_words", {"relation": "at least", "num_words": 3}, "a b-c", "a b"),
        ("length_constraints:number_sentences", {"relation": "less than", "num_sentences": 2}, "One.", "One. Two!"),
        ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "a\n***\nb", "a\n***\n***\nb"),
        ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "***a***b***", "a"),
        (
            "length_constraints:nth_paragraph_first_word",
            {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "hello"},
            'a\n\n"Hello, you',
            "a\n\nyou hello",
        ),
        ("detectable_content:number_placeholders", {"num_placeholders": 2}, "[a] and [b]", "[a] b"),
        ("detectable_content:postscript", {"postscript_marker": "P.S."}, "x\np. s. bye", "ps bye"),
        ("detectable_content:postscript", {"postscript_marker": "P.P.S"}, "x P.P.S bye", "P.S. bye"),
        ("detectable_format:number_bullet_lists", {"num_bullets": 2}, "* a\n - b", "* a\n**b**"),
        ("detectable_format:constrained_response", {}, "My answer is maybe.", "my answer is maybe"),
        ("detectable_format:number_highlighted_sections", {"num_highlights": 2}, "*a* and **b**", "*a* and **"),
        ("detectable_format:multiple_sections", {"section_spliter": "SECTION", "num_sections": 2},
         "SECTION 1 a SECTION 2 b", "SECTION 1 a Section 2"),
        ("detectable_format:json_format", {}, '```json\n{"a": 1}\n```', '{"a": 1} done'),
        ("detectable_format:title", {}, "<<A title>>\ntext", "<< >> text"),
        ("combination:two_responses", {}, "a\n******\nb", "a ****** a"),
        ("combination:two_responses", {}, "a******b", "a******b******c"),
        ("combination:repeat_prompt", {"prompt_to_repeat": "Do it."}, " do it. Done", "Done. Do it."),
        ("startend:end_checker", {"end_phrase": "The end."}, 'So: "the end."', "The end. Or not"),
        ("startend:quotation", {}, ' "quoted" ', '"'),
        ("change_case:capital_word_frequency", {"capital_frequency": 2, "capital_relation": "at least"},
         "A BIG-HIT it was", "Big Hit"),
        ("change_case:english_capital", {}, "THE CAT IS ON THE MAT.", "THE Cat"),
        ("change_case:english_lowercase", {}, "the cat is on the mat", "le chat est dans la maison et il dort"),
        ("language:response_language", {"language": "hi"}, "बिल्ली मेज पर है", "The cat is on the table"),
        ("punctuation:no_comma", {}, "one two", "one, two"),
    ],
)  # fmt: skip
def test_each_instruction_by_hand(name, params, good, bad):
    assert check(name, good, **params) is True
    assert check(name, bad, **params) is False


def test_a_language_it_does_not_know_gives_no_verdict():
    assert check("language:response_language", "Kass on laual", language="et") is None


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("One. Two? Three!", 3),
        ("Dr. Smith met Mr. Jones at 5 p.m. yesterday.", 1),
        ("one. two. three", 3),
        ("It cost 3.50 euros... not much. Wow!!!", 2),
        ('"Go!" she said. He went.', 3),
        ("no full stop", 1),
        ("1. First item\n2. Second item", 1),
        ("", 0),
    ],
)
def test_sentences(text, count):
    assert count_sentences(text) == count


def test_words():
    assert count_words("don't stop_here 3 times") == 5
    assert count_capital_words("NASA said I'm OK, not Ok. U.S. ABC-DEF") == 5


LANGUAGE_SAMPLES = {
    "en": "The cat is on the table and it looks at you.",
    "es": "El gato está en la mesa y no se mueve por nada.",
    "fr": "Le chat est dans la maison et il ne bouge pas.",
    "de": "Die Katze ist auf dem Tisch und schläft nicht.",
    "it": "Il gatto è sul tavolo e non si muove per niente.",
    "pt": "O gato está na mesa e não se mexe por nada mais.",
    "pl": "Kot jest na stole i nie rusza się od rana.",
    "vi": "Con mèo ở trên bàn và không đi đến đâu cả.",
    "sw": "Paka yuko juu ya meza na hataki kula chakula cha asubuhi kwa sasa.",
    "fi": "Kissa on pöydällä ja se ei liiku, mutta hän on iloinen.",
    "hi": "बिल्ली मेज पर है और वह नहीं चलती है।",
    "mr": "मांजर टेबलावर आहे आणि ते हलत नाही.",
    "ne": "बिरालो टेबुलमा छ र यो हिँड्दैन।",
    "ru": "Кошка лежит на столе, и мы её видим. Это быстрый зверь.",
    "uk": "Кішка лежить на столі і не рухається.",
    "bg": "Котката е на масата и не се движи, защото е уморена.",
    "ar": "القطة على الطاولة ولا تتحرك.",
    "fa": "گربه روی میز است و حرکت نمی‌کند.",
    "ur": "بلی میز پر ہے اور حرکت نہیں کرتی۔",
    "ja": "猫はテーブルの上にいます。",
    "ko": "고양이가 테이블 위에 있다.",
    "he": "החתול על השולחן.",
    "th": "แมวอยู่บนโต๊ะ",
    "ta": "பூனை மேசையில் உள்ளது",
    "te": "పిల్లి బల్ల మీద ఉంది",
    "kn": "ಬೆಕ್ಕು ಮೇಜಿನ ಮೇಲಿದೆ",
    "gu": "બિલાડી ટેબલ પર છે",
    "pa": "ਬਿੱਲੀ ਮੇਜ਼ ਤੇ ਹੈ",
    "ml": "പൂച്ച മേശപ്പുറത്താണ്",
    "bn": "বিড়াল টেবিলের উপর আছে",
}


def test_every_language_of_ifeval_is_told():
    assert set(LANGUAGE_SAMPLES) == LANGUAGES
    assert {code: detect_language(text) for code, text in LANGUAGE_SAMPLES.items()} == {c: c for c in LANGUAGES}
    assert detect_language("12 + 3 = 15") is None
    assert detect_language("猫") is None
