"""Builds the training pairs from the git directories of public repositories.

    python3 training/pairs.py MIRROR pairs.json.xz

MIRROR holds one git directory per repository, as `owner+name/repo` or `owner+name/repo/.git`, at the revisions that
README.md lists. The output is `{source: {"docs": [[passage, ...], ...], "pairs": [[question, doc, [place, ...]], ...]}}`:
`place` names the passages of a document that answer the question, the others of the document are hard negatives.
"""

import ast
import json
import lzma
import random
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

SEED = 20260101
PASSAGE_CHARS = 900
DOC_PASSAGES_MAX = 8

mirror, out = Path(sys.argv[1]), sys.argv[2]


def git(repo, *args):
    folder = mirror / repo.replace("/", "+") / "repo"
    folder = folder / ".git" if (folder / ".git").exists() else folder
    done = subprocess.run(["git", f"--git-dir={folder}", *args], capture_output=True, check=True)
    return done.stdout.decode("utf-8", "replace")


def show(repo, path):
    try:
        return git(repo, "show", f"HEAD:{path}")
    except subprocess.CalledProcessError:
        return ""  # The largest files of a repository may be absent.


def paths(repo, under, *ends):
    return [path for path in git(repo, "ls-tree", "-r", "--name-only", "HEAD", "--", under).split("\n") if path.endswith(ends)]


class Source:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.docs, self.pairs = [], []

    def add(self, passages, questions):
        """Adds a document with its questions and the places of their answers; a long document is cut to what is near them."""
        passages = [tidy(passage) for passage in passages]
        questions = [(tidy(q), sorted(set(at))) for q, at in questions if at and len(q.split()) >= 3]
        if not questions:
            return
        wanted = {place for _, at in questions for place in at}
        if len(passages) > DOC_PASSAGES_MAX:
            near = sorted(range(len(passages)), key=lambda p: min(abs(p - w) for w in wanted))
            kept = sorted(set(near[: max(DOC_PASSAGES_MAX, len(wanted))]) | wanted)
        else:
            kept = range(len(passages))
        places = {place: at for at, place in enumerate(kept)}
        self.docs.append([passages[place] for place in kept])
        for q, at in questions:
            self.pairs.append([q, len(self.docs) - 1, [places[place] for place in at]])

    def cut(self, count):
        """Keeps so many pairs, and the documents they name."""
        if len(self.pairs) > count:
            self.pairs = self.random.sample(self.pairs, count)
        used = sorted({doc for _, doc, _ in self.pairs})
        places = {doc: at for at, doc in enumerate(used)}
        self.docs = [self.docs[doc] for doc in used]
        self.pairs = [[q, places[doc], at] for q, doc, at in self.pairs]
        return {"docs": self.docs, "pairs": self.pairs}


def tidy(text):
    return re.sub(r"\n{3,}", "\n\n", text.strip())[:PASSAGE_CHARS]


def joined(text):
    """Undoes the spaces of a tokenizer."""
    text = re.sub(r" (n't|'s|'re|'m|'ve|'ll|'d)\b", r"\1", text)
    text = re.sub(r"\b([Gg]on|[Ww]an|[Gg]ot) (na|ta)\b", r"\1\2", text)
    return re.sub(r"\s+([.,!?;:])", r"\1", text)


def words(text):
    return {word for word in re.findall(r"[a-z0-9]+", text.lower()) if len(word) > 3}


def said(source, speaker, text):
    """A message as memories hold it: bare, with its speaker, or with its date as well."""
    way = source.random.random()
    if way < 0.4 or not speaker:
        return text
    if way < 0.65:
        return f"{speaker}: {text}"
    months = "January February March April May June July August September October November December".split()
    r = source.random
    time = f"{r.randint(1, 12)}:{r.randint(0, 59):02} {r.choice(['am', 'pm'])}"
    return f"[{time} on {r.randint(1, 28)} {r.choice(months)}, {r.randint(2021, 2026)}] {speaker}: {text}"


def friends():
    source = Source(SEED)
    for name in ["dev", "tst"]:
        for scene in json.loads(show("emorynlp/FriendsQA", f"dat/friendsqa_{name}.json"))["data"]:
            for paragraph in scene["paragraphs"]:
                dated = Source(len(source.docs))
                style = random.Random(len(source.docs)).random()
                turns = []
                for turn in paragraph["utterances:"]:
                    dated.random.seed(style)  # One form a scene.
                    speakers = " and ".join(name.split()[0] for name in turn["speakers"])
                    turns.append(said(dated, speakers, joined(turn["utterance"])))
                places = {turn["uid"]: at for at, turn in enumerate(paragraph["utterances:"])}
                questions = [
                    (joined(qa["question"]), [places[a["utterance_id"]] for a in qa["answers"] if a["utterance_id"] in places])
                    for qa in paragraph["qas"]
                ]
                source.add(turns, questions)
    return source.cut(3_000)


def meetings():
    """Of a span that answers, the turns that share most words with the answer."""
    source = Source(SEED + 1)
    for path in paths("Yale-LILY/QMSum", "data", ".json"):
        if not re.search(r"^data/(Academic|Product|Committee)/(train|val|test)/", path):
            continue
        meeting = json.loads(show("Yale-LILY/QMSum", path))
        speech = [re.sub(r"\{[a-z]+\} ?|<[a-z]+> ?", "", turn["content"]) for turn in meeting["meeting_transcripts"]]
        style = source.random.random()
        for query in meeting["specific_query_list"]:
            scored = []
            for first, last in query["relevant_text_span"]:
                for at in range(int(first), min(int(last) + 1, len(speech))):
                    shared = len(words(speech[at]) & words(query["answer"] + " " + query["query"]))
                    scored.append((shared, at))
            best = [at for shared, at in sorted(scored, reverse=True)[:2] if shared >= 4]
            if not best:
                continue
            places = [at for at in range(max(0, min(best) - 20), min(len(speech), max(best) + 20)) if at in best or len(speech[at]) > 40]
            near = sorted(sorted(places, key=lambda p: min(abs(p - b) for b in best))[:10])
            turns = []
            for at in near:
                source.random.seed(style)
                turns.append(said(source, meeting["meeting_transcripts"][at]["speaker"], joined(speech[at])))
            source.add(turns, [(joined(query["query"]), [near.index(at) for at in best])])
    return source.cut(1_600)


def chat_help():
    source = Source(SEED + 2)
    data = json.loads(show("HIT-SCIR/Molweni", "MRC(withDiscourse)/test.json"))["data"]
    for dialogue in data["dialogues"]:
        turns = [f"{edu['speaker']}: {joined(edu['text'])}" for edu in dialogue["edus"]]
        questions = []
        for qa in dialogue["qas"]:
            texts = [a["text"] for a in qa.get("answers", [])]
            at = [i for i, edu in enumerate(dialogue["edus"]) if any(len(t) > 3 and t in edu["text"] for t in texts)]
            questions.append((joined(qa["question"]), at[:2]))
        source.add(turns, questions)
    return source.cut(2_000)


def squads(repo, path, seed, count):
    source = Source(seed)
    for article in json.loads(show(repo, path))["data"]:
        passages, questions = [], []
        for paragraph in article["paragraphs"]:
            first = len(passages)
            starts, at = [], 0
            for part in parts_of(paragraph["context"], PASSAGE_CHARS - 200):
                at = max(0, paragraph["context"].find(part[:60], at))
                starts.append(at)
                passages.append(part)
            for qa in paragraph["qas"]:
                answers = [a["answer_start"] for a in qa["answers"][:1]]
                for start in answers:
                    questions.append((qa["question"], [first + max(i for i, s in enumerate(starts) if s <= start)]))
        # One document a few questions: a paper has more passages than a document takes.
        for from_ in range(0, len(questions), 4):
            source.add(passages, questions[from_ : from_ + 4])
    return source.cut(count)


def parts_of(text, chars):
    parts, part = [], ""
    for sentence in re.split(r"(?<=[.!?])\s+|\n\s*\n", text):
        if part and len(part) + len(sentence) > chars:
            parts.append(part)
            part = ""
        part = f"{part} {sentence}".strip()
    return parts + ([part] if part else [])


def papers():
    source = Source(SEED + 4)
    for paper in json.loads(show("pubmedqa/pubmedqa", "data/ori_pqal.json")).values():
        source.add([context for context in paper["CONTEXTS"]], [(paper["QUESTION"], list(range(len(paper["CONTEXTS"]))))])
    return source.cut(700)


def health():
    source = Source(SEED + 5)
    for path in source.random.sample(sorted(paths("abachaa/MedQuAD", ".", ".xml")), 2_500):
        passages, questions = [], []
        for pair in ElementTree.fromstring(show("abachaa/MedQuAD", path)).iter("QAPair"):
            answer = re.sub(r"[ \t]+", " ", pair.findtext("Answer") or "")
            if len(answer) < 60:
                continue
            questions.append((re.sub(r" \?", "?", pair.findtext("Question") or ""), [len(passages)]))
            passages.extend(parts_of(answer, PASSAGE_CHARS - 200)[:2])
        source.add(passages, source.random.sample(questions, min(2, len(questions))))
    return source.cut(1_500)


DOCS = [
    ("microsoft/vscode-docs", "docs", (".md",), 1_500),
    ("kubernetes/website", "content/en/docs", (".md",), 1_500),
    ("github/docs", "content", (".md",), 1_500),
    ("MicrosoftDocs/windows-itpro-docs", "windows", (".md",), 1_200),
    ("tiangolo/fastapi", "docs/en/docs", (".md",), 400),
    ("facebook/docusaurus", "website/docs", (".md", ".mdx"), 500),
    ("gohugoio/hugo", "docs/content/en", (".md",), 500),
    ("django/django", "docs", (".txt",), 1_200),
]


def documents(repo, under, ends, count):
    """A heading, with the title of its page, and the text below it."""
    source = Source(SEED + 6 + len(repo))
    files = paths(repo, under, *ends)
    for path in source.random.sample(files, min(len(files), 600)):
        sections = sections_of(show(repo, path), path.endswith(".txt"))
        passages, questions = [], []
        title = sections[0][0] if sections else ""
        for heading, body in sections:
            body = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"\{[{%][^}]*[}%]\}", "", body)).strip()
            if len(body) < 150:
                continue
            for at, part in enumerate(parts_of(body, PASSAGE_CHARS - 200)[:2]):
                first = re.split(r"(?<=[.!?])\s+", part, maxsplit=1)
                if at == 0 and len(heading) > 3:
                    questions.append((asked(source, heading, title), [len(passages)]))
                elif len(first) == 2 and len(first[0]) < 220 and len(first[1]) > 120:
                    # The sentence before says what the next ones are about.
                    questions.append((first[0], [len(passages)]))
                    part = first[1]
                passages.append(part)
        source.add(passages, source.random.sample(questions, min(5, len(questions))))
    return source.cut(count)


def sections_of(text, is_rst):
    text = re.sub(r"^---\n.*?\n---\n", "", text, flags=re.S)
    found = re.search(r"^title:\s*[\"']?(.+?)[\"']?\s*$", text, flags=re.M)
    if is_rst:
        pieces = re.split(r"^(?:=+\n)?([^\n]{3,90})\n[=\-~^]{3,}\n", text, flags=re.M)
    else:
        pieces = re.split(r"^#{1,4} +([^\n]+)\n", text, flags=re.M)
    head = [(found.group(1), pieces[0])] if found else []
    return head + [(re.sub(r"[`*]|\{#.*?\}|<.*?>", "", h).strip(), body) for h, body in zip(pieces[1::2], pieces[2::2])]


def asked(source, heading, title):
    heading, topic = heading.rstrip("?. "), title if title.lower() not in heading.lower() else ""
    verb = heading.split()[0].lower()
    way = source.random.random()
    if verb in {"how", "what", "why", "when", "where", "can", "is", "does", "which", "do", "should"}:
        return f"{heading}?"
    lowered = heading[0].lower() + heading[1:]
    if verb.endswith("ing"):
        question = f"{heading}"
    elif verb in {"use", "create", "add", "set", "configure", "install", "run", "enable", "get", "change", "define", "update", "remove", "delete", "check", "test", "deploy", "manage", "build", "open", "view", "customize", "disable", "write", "make", "start", "debug"}:
        question = f"How do I {lowered}?" if way < 0.8 else heading
    else:
        question = f"What does {topic or 'the documentation'} say about {lowered}?" if way < 0.3 else f"{topic} {heading}".strip()
        return question
    return f"{question} ({topic})" if topic and way < 0.3 else question


CODE = [
    ("django/django", "django", ".py", 900),
    ("scikit-learn/scikit-learn", "sklearn", ".py", 900),
    ("pandas-dev/pandas", "pandas/core", ".py", 900),
    ("dask/dask", "dask", ".py", 500),
    ("lodash/lodash", ".", ".js", 300),
    ("date-fns/date-fns", ".", ".ts", 400),
    ("gohugoio/hugo", ".", ".go", 700),
    ("tokio-rs/tokio", ".", ".rs", 600),
]


def code(repo, under, end, count):
    """The first sentence of a function's documentation, and the function without it."""
    source = Source(SEED + 30 + len(repo))
    files = [path for path in paths(repo, under, end) if "test" not in path.lower()]
    for path in source.random.sample(files, min(len(files), 700)):
        text = show(repo, path)
        found = list(python_functions(text) if end == ".py" else commented_functions(text, end))
        found = [(sentence, body) for sentence, body in found if len(sentence.split()) >= 4 and len(body) > 80]
        if len(found) > 12:
            found = source.random.sample(found, 12)
        source.add([body for _, body in found], [(sentence, [at]) for at, (sentence, _) in enumerate(found)])
    return source.cut(count)


def python_functions(text):
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    lines = text.split("\n")
    for node in ast.walk(tree):
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or not (doc := ast.get_docstring(node)):
            continue
        first = node.body[0]
        kept = lines[node.lineno - 1 : first.lineno - 1] + lines[first.end_lineno : node.end_lineno]
        yield first_sentence(doc), "\n".join(kept)


def commented_functions(text, end):
    if end in {".js", ".ts"}:
        form = r"/\*\*\n(.*?)\*/\n((?:export |async )*function .*?\n\})"
        for comment, body in re.findall(form, text, flags=re.S):
            described = re.search(r"@description\n(.*?)\n\s*\*?\s*(?:@|$)", comment, flags=re.S)
            plain = re.sub(r"^\s*\* ?", "", described.group(1) if described else comment, flags=re.M)
            yield first_sentence(plain), body
        return
    mark = "///" if end == ".rs" else "//"
    name = r"(?:pub (?:async )?fn|fn) " if end == ".rs" else r"func "
    form = rf"((?:^[ \t]*{mark} [^\n]*\n|^[ \t]*{mark}\n)+)(?:^[ \t]*#\[[^\n]*\n)*(^[ \t]*{name}.*?\n[ \t]*\}})"
    for comment, body in re.findall(form, text, flags=re.S | re.M):
        yield first_sentence(re.sub(rf"^[ \t]*{mark} ?", "", comment, flags=re.M)), body


def first_sentence(text):
    paragraph = re.sub(r"\s+", " ", text.strip().split("\n\n")[0])
    return re.split(r"(?<=[.!?]) ", re.sub(r":\w+:`[~.]?([^`]+)`", r"\1", paragraph))[0][:250]


def commits():
    """What a commit says, and the patch a tool prints of it."""
    source = Source(SEED + 60)
    for repo, count in [("django/django", 900), ("tiangolo/fastapi", 200), ("dask/dask", 400), ("date-fns/date-fns", 250), ("tokio-rs/tokio", 400)]:
        log = git(repo, "log", "-n", str(count * 3), "--no-merges", "--format=%x01%s%x02", "-p", "-U2", "--no-color", "--diff-filter=M")
        batch = []
        for entry in log.split("\x01")[1:]:
            message, _, patch = entry.partition("\x02")
            message = re.sub(r"^(Fixed|Refs) #\d+(, (Fixed|Refs) #\d+)* -- |\(#\d+\)|^:\w+: |^[^\w\s]+ ", "", message).strip()
            hunks = re.findall(r"^\+\+\+ b/([^\n]+)\n(@@.*?)(?=^diff |\Z)", patch, flags=re.S | re.M)
            hunks = [(path, hunk) for path, hunk in hunks if not re.search(r"test|release|change|lock|\.po$", path.lower())]
            if len(message.split()) < 4 or not hunks or re.search(r"[Rr]elease|[Bb]ump|translat|[Uu]pdate", message):
                continue
            batch.append((message, f"{hunks[0][0]}\n{hunks[0][1]}"))
        for from_ in range(0, len(batch), 10):
            group = batch[from_ : from_ + 10]
            source.add([patch for _, patch in group], [(message, [at]) for at, (message, _) in enumerate(group)])
    return source.cut(1_200)


def commands():
    source = Source(SEED + 61)
    pages = paths("tldr-pages/tldr", "pages", ".md")
    for path in source.random.sample(pages, 1_200):
        page = show("tldr-pages/tldr", path)
        name = page.split("\n")[0].strip("# ")
        rows = re.findall(r"^- (.+?):\n\n`(.+?)`$", page, flags=re.M)
        plain = [(re.sub(r"[\[\]`]", "", text), re.sub(r"\{\{\[?(.*?)\]?\}\}", r"\1", line)) for text, line in rows]
        shown = [f"$ {line}" for _, line in plain]
        questions = [(text if source.random.random() < 0.5 else f"How do I {text[0].lower() + text[1:]} with {name}?", [at]) for at, (text, _) in enumerate(plain)]
        source.add(shown, source.random.sample(questions, min(2, len(questions))))
    return source.cut(1_200)


def preferences():
    """What a person once said of themselves, and a later question it bears on; written for this."""
    source = Source(SEED + 62)
    lines = (Path(__file__).parent / "preferences.txt").read_text().strip().split("\n")
    for line in lines:
        statement, *questions = [part.strip() for part in line.split("|")]
        source.add([statement], [(question, [0]) for question in questions])
    return source.cut(2_000)


def services():
    """What a user told an assistant, asked for by what the schema says of it."""
    source = Source(SEED + 63)
    repo = "google-research-datasets/dstc8-schema-guided-dialogue"
    slots, aims = {}, {}
    for service in json.loads(show(repo, "train/schema.json")):
        for slot in service["slots"]:
            slots[service["service_name"], slot["name"]] = slot["description"]
        for intent in service["intents"]:
            aims[service["service_name"], intent["name"]] = intent["description"]
    for number in range(1, 60, 3):
        for dialogue in json.loads(show(repo, f"train/dialogues_{number:03}.json") or "[]"):
            turns = [turn["utterance"] for turn in dialogue["turns"]]
            questions, aim = [], ""
            for at, turn in enumerate(dialogue["turns"]):
                for frame in turn["frames"]:
                    aim = aims.get((frame["service"], frame.get("state", {}).get("active_intent")), aim)
                    for action in frame["actions"]:
                        told = slots.get((frame["service"], action["slot"]))
                        if action["act"] not in {"INFORM", "OFFER"} or not action["values"] or not told or action["slot"] == "intent":
                            continue
                        if action["values"][0].lower() in {"true", "false", "dontcare"}:
                            continue
                        told = told.rstrip(".")
                        told = told[0].lower() + told[1:]
                        who = "I ask for" if turn["speaker"] == "USER" else "you tell me"
                        question = source.random.choice(
                            [f"What was {told}?", f"Which {action['slot'].replace('_', ' ')} did {who}?", f"{aim}: {told}", f"When I wanted to {aim.lower()}, what was {told}?"]
                        )
                        questions.append((question, [at]))
            source.add(turns, source.random.sample(questions, min(2, len(questions))))
    return source.cut(900)


def smaller(made):
    """What is trained on: less of medicine and of patches, and at most three other passages of most documents."""
    for name, count in {"covid": 400, "papers": 400, "health": 800, "commits": 800}.items():
        source = made[name]
        pairs = random.Random(1).sample(source["pairs"], count)
        used = sorted({doc for _, doc, _ in pairs})
        places = {doc: at for at, doc in enumerate(used)}
        made[name] = {"docs": [source["docs"][doc] for doc in used], "pairs": [[q, places[doc], at] for q, doc, at in pairs]}
    dice = random.Random(5)
    for name, source in made.items():
        wanted = {}
        for _, doc, right in source["pairs"]:
            wanted.setdefault(doc, set()).update(right)
        moved = []
        for doc, passages in enumerate(source["docs"]):
            right = wanted.get(doc, set())
            others = [at for at in range(len(passages)) if at not in right]
            count = 6 if name in ("friends", "chat_help", "preferences") else max(1, 4 - len(right))
            kept = sorted(right | set(dice.sample(others, min(count, len(others)))))
            moved.append({at: new for new, at in enumerate(kept)})
            source["docs"][doc] = [passages[at][:700] for at in kept]
        source["pairs"] = [[q, doc, [moved[doc][at] for at in right]] for q, doc, right in source["pairs"]]
    return made


made = {"friends": friends(), "meetings": meetings(), "chat_help": chat_help()}
made["articles"] = squads("deepmind/xquad", "xquad.en.json", SEED + 3, 1_190)
made["covid"] = squads("deepset-ai/COVID-QA", "data/question-answering/200423_covidQA.json", SEED + 33, 700)
made |= {"papers": papers(), "health": health()}
for repo, under, ends, count in DOCS:
    made[f"docs {repo}"] = documents(repo, under, ends, count)
for repo, under, end, count in CODE:
    made[f"code {repo}"] = code(repo, under, end, count)
made |= {"commits": commits(), "commands": commands(), "preferences": preferences(), "services": services()}
made = smaller(made)
for name, rows in made.items():
    print(f"{name:40} {len(rows['pairs']):6} pairs {len(rows['docs']):6} documents {sum(map(len, rows['docs'])):7} passages")
with lzma.open(out, "wt", preset=6) as file:
    json.dump(made, file, ensure_ascii=False, separators=(",", ":"))
