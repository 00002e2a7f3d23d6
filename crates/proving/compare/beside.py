#!/usr/bin/env python3
"""Posts a second on one core: Rupor beside natasha and dateparser, on the same invented posts, in one run.

    python3 -m venv VENV && VENV/bin/pip install natasha dateparser setuptools
    VENV/bin/python crates/proving/compare/beside.py [--bench target/release/rupor-bench] [--posts 100]

natasha: sentences, tokens, morphology, lemmas and names. dateparser: dates only, asked with `search_dates`.
Rupor does all of that and kind, animal, sex, phones, place and fingerprint. Opt-in: nothing in `./test` needs it.
"""
import argparse
import glob
import json
import os
import subprocess
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "domain", "testdata")


def posts(count):
    texts = []
    for path in [os.path.join(ROOT, "pets-dev.jsonl"), *sorted(glob.glob(os.path.join(ROOT, "v2", "*.jsonl")))]:
        with open(path, encoding="utf-8") as lines:
            texts += [json.loads(line)["text"] for line in lines]
    texts = [text for text in texts if text.strip()]
    step = max(1, len(texts) // count)
    return texts[::step][:count]


def rate(work, texts):
    work(texts[0])
    begun = time.process_time()
    for text in texts:
        work(text)
    return len(texts) / (time.process_time() - begun)


def natasha_reader():
    from natasha import Doc, MorphVocab, NewsEmbedding, NewsMorphTagger, NewsNERTagger, Segmenter

    segmenter, vocab, embedding = Segmenter(), MorphVocab(), NewsEmbedding()
    morph, names = NewsMorphTagger(embedding), NewsNERTagger(embedding)

    def read(text):
        doc = Doc(text)
        doc.segment(segmenter)
        doc.tag_morph(morph)
        for token in doc.tokens:
            token.lemmatize(vocab)
        doc.tag_ner(names)

    return read


def date_reader():
    from dateparser.search import search_dates

    return lambda text: search_dates(text, languages=["ru"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench", help="the binary rupor-bench, built with --release")
    parser.add_argument("--posts", type=int, default=100)
    arguments = parser.parse_args()
    texts = posts(arguments.posts)
    print("natasha     %8.0f posts/s" % rate(natasha_reader(), texts))
    print("dateparser  %8.0f posts/s" % rate(date_reader(), texts))
    if arguments.bench:
        out = subprocess.run([arguments.bench, "content", "--json"], check=True, capture_output=True, text=True).stdout
        print("rupor       %8.0f posts/s" % json.loads(out)["posts_per_second_per_core"])


if __name__ == "__main__":
    main()
