#!/usr/bin/env python3
"""Posts a second on one core: Rupor beside natasha and dateparser, on the same invented posts, in one run.

    python3 -m venv VENV && VENV/bin/pip install natasha dateparser 'setuptools<81'
    cargo build --release -p rupor -p proving
    VENV/bin/python crates/proving/compare/beside.py [--target target/release] [--posts 100]

natasha: sentences, tokens, morphology, lemmas and names. dateparser: dates only, asked with `search_dates`.
Rupor does all of that and kind, animal, sex, phones, place and fingerprint. `rupor analyse` is the whole command on all
cores: reading JSON, cases and writing JSON. Opt-in: nothing in `./test` needs it; what is not installed is left out.
"""
import argparse
import glob
import importlib.metadata
import json
import os
import subprocess
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "domain", "testdata")


def corpus():
    found = []
    for path in [os.path.join(ROOT, "pets-dev.jsonl"), *sorted(glob.glob(os.path.join(ROOT, "v2", "*.jsonl")))]:
        with open(path, encoding="utf-8") as lines:
            found += [json.loads(line) for line in lines]
    return found


def posts(count):
    texts = [post["text"] for post in corpus() if post["text"].strip()]
    step = max(1, len(texts) // count)
    return texts[::step][:count]


def rate(work, texts):
    work(texts[0])
    begun = time.process_time()
    for text in texts:
        work(text)
    return len(texts) / (time.process_time() - begun)


def natasha_reader(with_names):
    from natasha import Doc, MorphVocab, NewsEmbedding, NewsMorphTagger, NewsNERTagger, Segmenter

    segmenter, vocab, embedding = Segmenter(), MorphVocab(), NewsEmbedding()
    morph = NewsMorphTagger(embedding)
    names = NewsNERTagger(embedding) if with_names else None

    def read(text):
        doc = Doc(text)
        doc.segment(segmenter)
        doc.tag_morph(morph)
        for token in doc.tokens:
            token.lemmatize(vocab)
        if names:
            doc.tag_ner(names)

    return read


def date_reader():
    from dateparser.search import search_dates

    return lambda text: search_dates(text, languages=["ru"])


def bench(target, *options):
    command = [os.path.join(target, "rupor-bench"), "content", "--json", *options]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(out)["posts_per_second_per_core"]


def end_to_end(target, rounds=12):
    """The command as people run it; each round is a year later, so that no post is told twice."""
    with tempfile.TemporaryDirectory() as folder:
        path, once = os.path.join(folder, "posts.jsonl"), corpus()
        with open(path, "w", encoding="utf-8") as out:
            for round in range(rounds):
                for post in once:
                    moved = dict(post, post_id=post["post_id"] + round * 1_000_000, date=post["date"] + round * 31_536_000)
                    moved["photos"] = [f"{round}-{photo}" for photo in post.get("photos") or []]
                    moved.pop("label", None)
                    out.write(json.dumps(moved, ensure_ascii=False) + "\n")
        begun = time.monotonic()
        subprocess.run([os.path.join(target, "rupor"), "analyse", path], check=True, stdout=subprocess.DEVNULL)
        return len(once) * rounds / (time.monotonic() - begun)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default=os.path.join("target", "release"), help="where the release binaries are")
    parser.add_argument("--posts", type=int, default=100)
    arguments = parser.parse_args()
    texts = posts(arguments.posts)
    own = bench(arguments.target)
    rows = [("Rupor: normalise, facts, fingerprint (one core)", own)]
    rows.append(("the same, the first corpus only", bench(arguments.target, "--first")))
    rows.append(("`rupor analyse`, all cores: JSON in, cases, JSON out", end_to_end(arguments.target)))
    for name, reader in [
        ("natasha: lemmas and grammar", lambda: natasha_reader(False)),
        ("natasha: the same and names", lambda: natasha_reader(True)),
        ("dateparser: dates", date_reader),
    ]:
        try:
            rows.append((name + version(name.split(":")[0]), rate(reader(), texts)))
        except ImportError as missing:
            print("%s is not installed (%s)" % (name, missing.name))
    print("| What | Posts a second | Rupor is faster by |\n|---|---:|---:|")
    for name, figure in rows:
        times = "%.0f ×" % (own / figure) if figure * 2 < own else "–"
        print("| %s | %.*f | %s |" % (name, 0 if figure >= 100 else 1, figure, times))


def version(package):
    return " (%s)" % importlib.metadata.version(package)


if __name__ == "__main__":
    main()
