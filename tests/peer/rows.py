"""Rows that both sides read, and their tokens.

    rows.py MODEL.gguf TOPICS.csv COUNT TOKENS OUT_FOLDER

Writes label.csv and text.jsonl for zerolock, and label.json and text.json with the same rows as token ids and labels for
the peer. The articles of TOPICS.csv (class, title, description) are joined until each row is TOKENS long:

- label: "Article: ... Topic:" and the class: one supervised token a row
- text: one long text cut into rows, each beginning with the last token of the one before: TOKENS - 1 supervised
"""
import csv
import json
import pathlib
import sys

from tokenizers import pre_tokenizers
from transformers import AutoTokenizer

IGNORED = -100
CLASSES = ["World", "Sports", "Business", "Science"]
ARTICLES_PER_ROW = 8


def load_tokenizer(model):
    path = pathlib.Path(model)
    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    # The reader of GGUF files forgets that SmolLM2 splits numbers into digits.
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    return lambda text: tokenizer(text, add_special_tokens=False)["input_ids"]


def label_rows(articles, count, tokens, encode, folder):
    tail = encode("\nTopic:")
    rows = []
    with open(folder / "label.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
        for i in range(count):
            joined = [articles[(i + j) % len(articles)] for j in range(ARTICLES_PER_ROW)]
            number, title, _ = joined[0]
            text = " ".join(description for _, _, description in joined)
            writer.writerow([number, title, text])
            ids = encode(f"Article: {title} {text}")[: tokens - 1 - len(tail)] + tail
            answer = encode(" " + CLASSES[int(number) - 1])
            rows.append({"ids": ids + answer, "labels": [IGNORED] * len(ids) + answer})
    return rows


def text_rows(articles, count, tokens, encode, folder):
    text = ""
    ids = []
    for _, title, description in articles * 100:
        text += f"{title}\n{description}\n\n"
        if len(text) > count * tokens * 8:
            break
    ids = encode(text)
    with open(folder / "text.jsonl", "w", encoding="utf-8") as file:
        file.write(json.dumps({"text": text}) + "\n")
    pieces = [ids[i * (tokens - 1) :][:tokens] for i in range(count)]
    return [{"ids": piece, "labels": [IGNORED] + piece[1:]} for piece in pieces]


def main(model, topics, count, tokens, folder):
    count, tokens, folder = int(count), int(tokens), pathlib.Path(folder)
    encode = load_tokenizer(model)
    with open(topics, newline="", encoding="utf-8") as file:
        articles = list(csv.reader(file))
    for name, make in [("label", label_rows), ("text", text_rows)]:
        rows = make(articles, count, tokens, encode, folder)
        short = [len(row["ids"]) for row in rows if len(row["ids"]) != tokens]
        if short:
            sys.exit(f"rows.py: {name}: rows of {sorted(set(short))} tokens where {tokens} were wanted")
        (folder / f"{name}.json").write_text(json.dumps(rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
