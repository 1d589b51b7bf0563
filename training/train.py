"""Trains gte-small further, measures it, and writes the weights in the layout of `packages/node/src/embedders/gte-small.ts`.

    python3 training/train.py --start START.bin --pairs pairs.json.xz --dev dev.json.xz --out OUT --plan training/plan.json

`dev.json.xz` is made by `training/development.ts`. `plan.json` is a list of runs, each with the fields of `Run`, and of
what to write of it: `vectors` names shares of the trained weights whose vectors of the development texts are written (8
bits), `weights` those whose weights are written.
"""

import argparse
import json
import lzma
import random
import struct
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import BertWordPieceTokenizer
from transformers import BertConfig, BertModel

LAYERS, WIDTH, HEADS, INNER, WORDS, PLACES = 12, 384, 12, 1536, 30522, 512
TILE, FACTS_BYTES, LANES = 4, 64, 16
WEIGHT_MAX = EMBEDDING_MAX = 127
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@dataclass
class Run:
    name: str
    # How much of the batches each group of sources gets.
    shares: dict
    steps: int = 700
    batch: int = 128
    hard: int = 3
    rate: float = 2e-5
    temperature: float = 0.02
    # What a vector that leaves the original's costs.
    stay: float = 0.3
    # Groups of sources that teach nothing new: among their texts, likeness stays what it was.
    kept: list = field(default_factory=list)
    # Groups whose other passages of the document are no hard negatives.
    soft: list = field(default_factory=list)
    pieces: int = 256
    seed: int = 1
    tried: list = field(default_factory=lambda: [0.7, 1.0])
    vectors: list = field(default_factory=list)
    weights: list = field(default_factory=list)


# The layout of the weights, in the order of `WEIGHTS` in gte-small.ts.


def matrix_bytes(rows, columns):
    return columns // TILE * (rows * TILE + FACTS_BYTES)


def layout():
    end = 0

    def place(size):
        nonlocal end
        at, end = end, end + -(-size // LANES) * LANES
        return at

    norm = lambda name: ("norm", name, place(2 * WIDTH * 4), WIDTH, 0)
    matrix = lambda names, rows, columns: ("matrix", names, place(matrix_bytes(rows, columns)), rows, columns)
    parts = []
    for layer in range(LAYERS):
        own = f"encoder.layer.{layer}"
        parts.append(matrix([f"{own}.attention.self.{part}" for part in ("query", "key", "value")], WIDTH, 3 * WIDTH))
        parts.append(matrix([f"{own}.attention.output.dense"], WIDTH, WIDTH))
        parts.append(norm(f"{own}.attention.output.LayerNorm"))
        parts.append(matrix([f"{own}.intermediate.dense"], WIDTH, INNER))
        parts.append(matrix([f"{own}.output.dense"], INNER, WIDTH))
        parts.append(norm(f"{own}.output.LayerNorm"))
    parts.append(norm("embeddings.LayerNorm"))
    parts.append(("table", "embeddings.word_embeddings", place(WORDS * WIDTH), place(WORDS * 4), WORDS))
    parts.append(("table", "embeddings.position_embeddings", place(PLACES * WIDTH), place(PLACES * 4), PLACES))
    return parts, end


def read_weights(data):
    """The floats that the bytes stand for."""
    state = {"embeddings.token_type_embeddings.weight": np.zeros((2, WIDTH), np.float32)}
    parts, end = layout()
    assert len(data) == end, f"{len(data)} bytes instead of {end}"
    for kind, names, at, a, b in parts:
        if kind == "norm":
            both = np.frombuffer(data, np.float32, 2 * WIDTH, at)
            state[f"{names}.weight"], state[f"{names}.bias"] = both[:WIDTH], both[WIDTH:]
        elif kind == "table":
            rows = np.frombuffer(data, np.int8, b * WIDTH, at).reshape(b, WIDTH).astype(np.float32)
            state[f"{names}.weight"] = rows * np.frombuffer(data, np.float32, b, a)[:, None]
        else:
            groups = np.frombuffer(data, np.uint8, matrix_bytes(a, b), at).reshape(b // TILE, a * TILE + FACTS_BYTES)
            bytes_ = groups[:, : a * TILE].reshape(-1, a // LANES, TILE, LANES).transpose(0, 2, 1, 3).reshape(b, a)
            facts = np.ascontiguousarray(groups[:, a * TILE :])
            scale = facts[:, :16].copy().view(np.float32).reshape(b, 1)
            zero = facts[:, 16:32].copy().view(np.int32).reshape(b, 1)
            bias = facts[:, 48:64].copy().view(np.float32).reshape(b)
            floats = (bytes_.astype(np.float32) - zero) * scale
            for number, name in enumerate(names):
                own = slice(number * b // len(names), (number + 1) * b // len(names))
                state[f"{name}.weight"], state[f"{name}.bias"] = floats[own], bias[own]
    return {name: torch.tensor(np.array(value, np.float32)) for name, value in state.items()}


def write_weights(state, grid, seed=1):
    """
    Rounds by chance, on the steps of the weights that training began with. What it adds to a weight is mostly smaller than
    a step: rounded to the nearest, all of it would be lost (measured: .9995 to the original, .9766 to the trained floats).
    """
    dice = np.random.default_rng(seed)
    chance = lambda exact: np.floor(exact + dice.random(exact.shape, np.float32)).astype(np.int32)
    floats = {name: value.detach().float().cpu().numpy() for name, value in state.items()}
    parts, end = layout()
    file = bytearray(end)
    for kind, names, at, a, b in parts:
        if kind == "norm":
            file[at : at + 8 * WIDTH] = np.concatenate([floats[f"{names}.weight"], floats[f"{names}.bias"]]).tobytes()
        elif kind == "table":
            table = floats[f"{names}.weight"].copy()
            if "position" in names:  # Every piece of a text is of the first kind.
                table += floats["embeddings.token_type_embeddings.weight"][0]
            scale = np.frombuffer(grid, np.float32, b, a)
            file[at : at + b * WIDTH] = chance(table / scale[:, None]).clip(-EMBEDDING_MAX, EMBEDDING_MAX).astype(np.int8).tobytes()
            file[a : a + 4 * b] = scale.tobytes()
        else:
            # Rows of a linear layer in PyTorch are the columns of the product.
            weights = np.concatenate([floats[f"{name}.weight"] for name in names])
            bias = np.concatenate([floats[f"{name}.bias"] for name in names]).astype(np.float32)
            groups = np.frombuffer(grid, np.uint8, matrix_bytes(a, b), at).reshape(b // TILE, a * TILE + FACTS_BYTES)
            scale = groups[:, a * TILE : a * TILE + 16].copy().view(np.float32).reshape(b)
            zero = groups[:, a * TILE + 16 : a * TILE + 32].copy().view(np.int32).reshape(b)
            bytes_ = chance(weights / scale[:, None] + zero[:, None]).clip(0, WEIGHT_MAX)
            sums = (bytes_ - zero[:, None]).sum(1).astype(np.int32)
            tiles = bytes_.astype(np.uint8).reshape(b // TILE, TILE, a // LANES, LANES).transpose(0, 2, 1, 3)
            facts = [x.reshape(-1, TILE) for x in (scale, zero, sums, bias)]
            for group in range(b // TILE):
                start = at + group * (a * TILE + FACTS_BYTES)
                file[start : start + a * TILE] = tiles[group].tobytes()
                file[start + a * TILE : start + a * TILE + FACTS_BYTES] = b"".join(x[group].tobytes() for x in facts)
    return bytes(file)


def model_of(state):
    config = BertConfig(
        vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=INNER,
        max_position_embeddings=PLACES, hidden_act="gelu", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )
    model = BertModel(config, add_pooling_layer=False)
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and all("position_ids" in name or "token_type_ids" in name for name in missing), (missing, unexpected)
    return model.to(DEVICE)


class Texts:
    """Texts as pieces, made once."""

    def __init__(self, vocabulary):
        self.tokenizer = BertWordPieceTokenizer(vocabulary, lowercase=True)
        self.known = {}

    def learn(self, texts):
        texts = [text for text in dict.fromkeys(texts) if text not in self.known]
        for from_ in range(0, len(texts), 4096):
            some = texts[from_ : from_ + 4096]
            for text, row in zip(some, self.tokenizer.encode_batch(some)):
                self.known[text] = row.ids

    def batch(self, texts, pieces):
        rows = [self.known[text] for text in texts]
        rows = [row if len(row) <= pieces else row[: pieces - 1] + [102] for row in rows]
        longest = max(map(len, rows))
        ids = torch.zeros(len(rows), longest, dtype=torch.long)
        mask = torch.zeros(len(rows), longest, dtype=torch.long)
        for at, row in enumerate(rows):
            ids[at, : len(row)] = torch.tensor(row)
            mask[at, : len(row)] = 1
        return ids.to(DEVICE, non_blocking=True), mask.to(DEVICE, non_blocking=True)


def encode(model, ids, mask):
    hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state.float()
    return F.normalize((hidden * mask[:, :, None]).sum(1), dim=-1)


@torch.no_grad()
def vectors_of(model, texts, known, pieces=512, exact=False):
    model.eval()
    order = sorted(range(len(texts)), key=lambda at: len(known.known[texts[at]]))
    out = torch.zeros(len(texts), WIDTH, device=DEVICE)
    for from_ in range(0, len(order), 256):
        some = order[from_ : from_ + 256]
        with torch.autocast(DEVICE, torch.bfloat16, enabled=not exact):
            out[some] = encode(model, *known.batch([texts[at] for at in some], pieces))
    model.train()
    return out


def group_of(name):
    return name.split(" ")[0]


def train(run, start, sources, known, teacher):
    torch.manual_seed(run.seed)
    dice = random.Random(run.seed)
    model = model_of(start)
    model.train()
    model.embeddings.position_embeddings.weight.requires_grad_(False)
    decayed = [p for n, p in model.named_parameters() if p.requires_grad and p.ndim > 1]
    others = [p for n, p in model.named_parameters() if p.requires_grad and p.ndim == 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}], lr=run.rate, fused=DEVICE == "cuda"
    )
    warm = max(1, run.steps // 10)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda at: min(1.0, (at + 1) / warm) * max(0.0, (run.steps - at) / max(1, run.steps - warm)) if at >= warm else (at + 1) / warm
    )
    names = [name for name in sources if run.shares.get(group_of(name), 0) > 0]
    sizes = {name: len(sources[name]["pairs"]) ** 0.5 for name in names}
    totals = {}
    for name in names:
        totals[group_of(name)] = totals.get(group_of(name), 0) + sizes[name]
    odds = [run.shares[group_of(name)] * sizes[name] / totals[group_of(name)] for name in names]
    queues = {name: [] for name in names}
    began, losses = time.time(), []
    for step in range(run.steps):
        name = dice.choices(names, odds)[0]
        source = sources[name]
        if len(queues[name]) < min(run.batch, len(source["pairs"])):
            queues[name] = dice.sample(source["pairs"], len(source["pairs"]))
        taken, queues[name] = queues[name][: run.batch], queues[name][run.batch :]
        passages, wanted, questions = [], [], []
        places = {}
        for question, doc, right in taken:
            texts = source["docs"][doc]
            good = dice.choice(right)
            wrong = [at for at in range(len(texts)) if at not in right and len(texts[at]) > 12]
            hard = 0 if group_of(name) in run.soft else run.hard
            for at in [good, *dice.sample(wrong, min(hard, len(wrong)))]:
                if texts[at] not in places:
                    places[texts[at]] = len(passages)
                    passages.append(texts[at])
            questions.append(question)
            wanted.append((places[texts[good]], [texts[at] for at in right]))
        with torch.autocast(DEVICE, torch.bfloat16):
            asked = encode(model, *known.batch(questions, 128))
            said = encode(model, *known.batch(passages, run.pieces))
        scores = asked @ said.T / run.temperature
        for at, (place, right) in enumerate(wanted):
            for text in right:  # Another right answer is no wrong one.
                if text in places and places[text] != place:
                    scores[at, places[text]] = -1e4
        before = teacher(questions + passages)
        if group_of(name) in run.kept:
            was = (before[: len(questions)] @ before[len(questions) :].T / run.temperature).softmax(1)
            loss = F.kl_div((asked @ said.T / run.temperature).log_softmax(1), was, reduction="batchmean")
        else:
            loss = F.cross_entropy(scores, torch.tensor([place for place, _ in wanted], device=DEVICE))
        left = 1 - (torch.cat([asked, said]) * before).sum(1)
        loss = loss + run.stay * 10 * left.mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(float(loss.detach()) if step % 50 == 0 else 0)
        if step % 100 == 0:
            print(f"  {run.name} step {step} {name} loss {losses[-1]:.3f} {time.time() - began:.0f} s", flush=True)
    return {name: value.detach().cpu() for name, value in model.state_dict().items()}


def between(start, trained, share):
    return {name: start[name] + share * (trained[name].float() - start[name]) if name in start else trained[name] for name in trained}


def measure(model, dev, held, known):
    """R@5 by vectors alone, relative to the mean of what was said so far, as a search compares them."""
    passages, queries = vectors_of(model, dev["passages"], known), vectors_of(model, dev["queries"], known)
    figures = {}
    for name, cases in dev["sets"].items():
        if name.endswith("one session"):
            continue  # The same to vectors alone.
        found = []
        for case in cases:
            ids, keys, step_vectors = [], [], None
            for questions, said in case:
                if questions and ids:
                    own = passages[torch.tensor(ids, device=DEVICE)]
                    own = own - own.mean(0)
                    own = F.normalize(own, dim=-1)
                    scores = queries[[q for q, _ in questions]] @ own.T
                    order = scores.topk(min(40, scores.shape[1]), dim=1).indices.tolist()
                    for (_, gold), row in zip(questions, order):
                        best = list(dict.fromkeys(keys[at] for at in row))[:5]
                        found.append(len(set(best) & set(gold)) / len(gold))
                for passage, key in said:
                    ids.append(passage)
                    keys.append(key)
        figures[name] = 100 * sum(found) / len(found)
    for name, source in held.items():
        texts = list(dict.fromkeys(text for doc in source["docs"] for text in doc))
        places = {text: at for at, text in enumerate(texts)}
        own = F.normalize(vectors_of(model, texts, known), dim=-1)
        asked = vectors_of(model, [q for q, _, _ in source["pairs"]], known)
        best = (asked @ own.T).topk(5, dim=1).indices.tolist()
        hits = [any(places[source["docs"][doc][at]] in row for at in right) for (_, doc, right), row in zip(source["pairs"], best)]
        figures[f"held {name}"] = 100 * sum(hits) / len(hits)
    return figures, passages, queries


def parted(sources, share=0.12):
    """A share of the documents of some sources, and two repositories whole, are kept for choosing."""
    whole = {"code tokio-rs/tokio", "docs facebook/docusaurus"}
    kept, held = {}, {}
    for name, source in sources.items():
        if name in whole:
            held[name] = source
        elif group_of(name) in {"friends", "meetings", "commits", "health"}:
            dice = random.Random(name)
            docs = set(dice.sample(range(len(source["docs"])), int(share * len(source["docs"]))))
            held[name] = {"docs": source["docs"], "pairs": [pair for pair in source["pairs"] if pair[1] in docs]}
            kept[name] = {"docs": source["docs"], "pairs": [pair for pair in source["pairs"] if pair[1] not in docs]}
        else:
            kept[name] = source
    return {name: source for name, source in kept.items() if source["pairs"]}, held


def packed(vectors):
    """A scale and 384 bytes a vector."""
    scale = vectors.abs().amax(1) / 127
    bytes_ = (vectors / scale[:, None]).round().to(torch.int8).cpu().numpy()
    return scale.cpu().numpy().astype("<f4").tobytes() + bytes_.tobytes()


def keep(out, files, table):
    """Two sets of vectors a file: few files come back, each of at most 16 MiB. A run that is ended leaves the earlier ones."""
    labels = list(files)
    for number in range(0, len(labels), 2):
        (out / f"vectors-{number // 2}").write_bytes(b"".join(files[label] for label in labels[number : number + 2]))
    (out / "table.json").write_text(json.dumps({"labels": labels, "table": table}))


def main():
    options = argparse.ArgumentParser()
    for name in ("pairs", "dev", "out", "plan"):
        options.add_argument(f"--{name}", required=True)
    options.add_argument("--assets", default=str(Path(__file__).parent.parent / "packages/node/assets"))
    options.add_argument("--start", required=True, help="the weights to begin with, which assets/make/gte-small.ts makes")
    options.add_argument("--fixture", help="texts whose vectors by the floats are written beside weights")
    given = options.parse_args()
    out = Path(given.out)
    data = Path(given.start).read_bytes()
    start = read_weights(data)
    sources = json.load(lzma.open(given.pairs, "rt"))
    dev = json.load(lzma.open(given.dev, "rt"))
    known = Texts(str(Path(given.assets) / "vocab.txt"))
    began = time.time()
    known.learn(dev["passages"] + dev["queries"])
    everything = [t for s in sources.values() for doc in s["docs"] for t in doc] + [q for s in sources.values() for q, _, _ in s["pairs"]]
    known.learn(everything)
    sources, held = parted(sources)
    print(f"read {len(known.known)} texts in {time.time() - began:.0f} s", flush=True)
    base = model_of(start)
    everything = list(dict.fromkeys(everything))
    place = {text: at for at, text in enumerate(everything)}
    original = vectors_of(base, everything, known, pieces=256)
    teacher = lambda texts: original[torch.tensor([place[text] for text in texts], device=DEVICE)]
    table = {}
    table["today"], passages, queries = measure(base, dev, held, known)
    print(f"original measured after {time.time() - began:.0f} s", flush=True)
    files = {"today": packed(torch.cat([passages, queries]))}
    for row in json.loads(Path(given.plan).read_text()):
        run = Run(**row)
        trained = train(run, start, sources, known, teacher)
        for share in run.tried:
            model = model_of(between(start, trained, share))
            label = f"{run.name}@{share}"
            table[label], passages, queries = measure(model, dev, held, known)
            print(label, {name: round(value, 1) for name, value in table[label].items()}, flush=True)
            if share in run.vectors:
                files[label] = packed(torch.cat([passages, queries]))
            if share in run.weights:
                weights = write_weights(model.state_dict(), data)
                rounded = model_of(read_weights(weights))
                table[f"{label} rounded"], passages, queries = measure(rounded, dev, held, known)
                files[f"{label} rounded"] = packed(torch.cat([passages, queries]))
                for number in range(3):
                    third = -(-len(weights) // 3)
                    (out / f"weights-{run.name}-{share}.{number}").write_bytes(weights[number * third : (number + 1) * third])
                if given.fixture:
                    texts = [case["text"] * case["times"] for case in json.loads(Path(given.fixture).read_text())]
                    known.learn(texts)
                    made = vectors_of(model, texts, known, exact=True)
                    near = (made * vectors_of(rounded, texts, known, exact=True)).sum(1)
                    print("cosines of rounded and trained weights:", [round(float(x), 5) for x in near])
                    (out / "fixture.f32").write_bytes(made.cpu().numpy().astype("<f4").tobytes())
        keep(out, files, table)
    names = list(table["today"])
    print("| " + " | ".join(["R@5, vectors alone", *names]) + " |")
    for label, row in table.items():
        print("| " + " | ".join([label, *(f"{row[name]:.1f}" for name in names)]) + " |")


if __name__ == "__main__":
    main()
