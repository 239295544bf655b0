"""How labels come about: everything that an `AutoLabeler` has learned, as data, and what it does with a batch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from wattstep.labeling import (
    admission,
    asking,
    ellipsoids,
    label_model,
    neighbourhood,
    novelty,
    pooling,
)
from wattstep.labeling.arrays import ABSTAINS, Bools, Floats, Ints, among, moments, one_hot
from wattstep.labeling.concepts import Concept, combined, recognised
from wattstep.labeling.discovery import MOST_CLUSTERS, Cluster, Discovery
from wattstep.labeling.drift import Watch, errors_among, learning_watch, watch
from wattstep.labeling.ellipsoids import Ellipsoids
from wattstep.labeling.heuristics import Heuristic, taught, votes_in
from wattstep.labeling.label_model import LabelModel
from wattstep.labeling.lookup import Found, Index, Lookup, look_up
from wattstep.labeling.memory import Labeled, Recent
from wattstep.labeling.neighbourhood import NEIGHBOURS, Neighbourhood, Placed
from wattstep.labeling.novelty import Novelty
from wattstep.labeling.outcome import ABSTAINED, LABELED, UNKNOWN, Judged, none_judged
from wattstep.labeling.pooling import Walked
from wattstep.labeling.ranks import Ranks, ranks_among

FIRST_LOOK = 32  # samples after which the graph is built again for the first time
GROWTH = 1.5  # of what was seen, until the next time
LONGEST = 32  # memories, until the next time at the latest
REGENERATES = 1.3  # growth of the labeled set from which heuristics are made anew
CONNECTS = 0.1  # of it, in further labels, from which the graph is built again
LEAST_TAUGHT = 50  # recent samples from which the student learns
CLIP = 8.0  # standard deviations
LEARNS_RATE = 100  # values from which a rate before a change is learned
# Mass at a new class, for that at known ones, of an unknown sample that is of it.
LEAST_OF_NEW = 0.25
STRANGE = 0.2  # p-values whose share is watched by class
MOST_CONCEPTS, MOST_ARCHIVED = 4, 32
UNLABELED_ALARMS, LABELED_ALARMS = 1e-5, 1e-3  # false ones a sample


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What `AutoLabeler` was asked for; its documentation says what each is."""

    false_alarm: float
    confidence: float
    max_heuristics: int
    candidates: int
    memory: int
    labeled_memory: int


@dataclass(kw_only=True)
class Engine:
    """What is learned.

    Attributes:
        settings: As asked for.
        classes: How many known classes there are.
        groups: Sizes of groups of features that count alike in distances: raw ones, learned ones.
        labeled, recent: Samples in memory.
        random: Draws whatever is drawn.
        given: Samples without labels so far, unreadable ones among them.
        seen: Those that were learned from.
        made_from, taught, connected_with: Labeled samples that the heuristics were made from, that came since, and
            that had come when the graph was built.
        calibrated_with: Recent samples that there were when the temperature was chosen.
        look: Looks samples up in what is in memory; it is no part of a state.
        ...: The rest is made from these.
    """

    settings: Settings
    classes: int
    groups: tuple[int, ...]
    labeled: Labeled
    recent: Recent
    random: np.random.Generator
    discovery: Discovery = field(default_factory=Discovery)
    given: int = 0
    seen: int = 0
    next_look: int = FIRST_LOOK
    last_look: int = 0
    made_from: int = 0
    taught: int = 0
    connected_with: int = 0
    calibrated_with: int = 0
    center: Floats = field(default_factory=lambda: np.zeros(0))
    scale: Floats = field(default_factory=lambda: np.ones(0))
    heuristics: list[Heuristic] = field(default_factory=list)
    apart: list[list[Heuristic]] = field(default_factory=list)
    ranks: Ranks | None = None
    graph: Neighbourhood | None = None
    ellipsoids: Ellipsoids | None = None
    test: Novelty | None = None
    model: LabelModel | None = None
    student: Heuristic | None = None
    temperature: float = 1.0
    disagreements: Watch | None = None
    strangers: Watch | None = None
    errors: Watch | None = None
    archive: list[Heuristic] = field(default_factory=list)
    concepts: list[Concept] = field(default_factory=list)
    drifts: list[int] = field(default_factory=list)
    retired: int = 0
    look: Lookup = field(default_factory=lambda: look_up, init=False, repr=False, compare=False)

    # -- learning

    def generate(self) -> None:
        """Makes heuristics from the labeled samples, then everything that follows from them."""
        self._measure_scale()
        made = admission.generate(
            self._standard(self.labeled.x), self.labeled.codes, self.classes,
            most=self.settings.max_heuristics, candidates=self.settings.candidates,
            random=self.random, older=self.archive,
        )  # fmt: skip
        self.heuristics, self.apart = made.heuristics, made.apart
        self.labeled.symbols, self.labeled.folds = made.symbols, made.folds
        self.made_from, self.taught = len(self.labeled.codes), 0
        self.calibrated_with = 0
        self.connect()

    def connect(self) -> None:
        """Graph, test and label model from the samples in memory."""
        for _ in range(MOST_CLUSTERS):
            if not self._connected_with_other_classes():
                break
        self._begin_watching()
        self.last_look, self.connected_with = self.seen, self.taught
        grown = int(self.seen * GROWTH)
        self.next_look = max(
            self.seen + FIRST_LOOK, min(grown, self.seen + LONGEST * self.settings.memory)
        )

    def _connected_with_other_classes(self) -> bool:
        """Whether a cluster of unknown samples has become a class, or two are one, so that all must be done again."""
        of_labeled, standard = self._standard(self.labeled.x), self._standard(self._recent_x())
        self.ranks = ranks_among(np.concatenate([of_labeled, standard]))
        stable = self.discovery.stable()
        new = [self._space(self._standard(each.core)) for each in stable]
        codes = np.repeat(np.arange(len(new)), [len(each) for each in new]).astype(np.int64)
        labeled, recent = self._space(of_labeled), self._space(standard)
        nothing = np.empty((0, labeled.shape[1]))
        self.graph, ends = neighbourhood.build(
            labeled,
            self.labeled.codes,
            self.classes,
            recent,
            np.concatenate([nothing, *new]),
            codes,
        )
        first = len(labeled) + len(codes)
        own = self.graph.own
        self.ellipsoids = ellipsoids.fit(of_labeled, self.labeled.codes, standard)
        surprise = self._surprise(own.surprise[first:], standard)
        self.test = novelty.learn(
            np.column_stack([own.surprise[: len(labeled)], self.ellipsoids.own]),
            surprise,
            self.settings.false_alarm,
        )
        score = self.test.score(surprise)
        p, trust = self.test.p_values(score), self.test.known.at(score)
        told = Walked(
            standard=of_labeled, ends=ends[: len(labeled)],
            symbols=np.column_stack([self.labeled.symbols, self._spread(own.masses[: len(labeled)])]),
        )  # fmt: skip
        untold = Walked(
            standard=standard, ends=ends[first:],
            symbols=np.column_stack([self._symbols(standard), self._spread(own.masses[first:])]),
        )  # fmt: skip
        self.model = label_model.learn(
            told.symbols, self.labeled.codes, self.classes, untold.symbols, trust
        )
        self._teach_student(told, untold, trust)
        if self.test.prevalence == 1.0:
            return False
        unknown = p <= self.test.level
        cores = [self._space(self._standard(each.core)) for each in self.discovery.clusters]
        return self.discovery.look(recent, self.recent.x, unknown, cores)

    def _surprise(self, of_graph: Floats, standard: Floats) -> Floats:
        """All surprises of samples, shape (n, 4)."""
        assert self.ellipsoids is not None
        return np.column_stack([of_graph, self.ellipsoids.distance(standard)])

    def _teach_student(self, labeled: Walked, recent: Walked, trust: Floats) -> None:
        """A forest that learns from recent samples what label model and spread labels say of them.

        Args:
            labeled, recent: Samples.
            trust: How far each recent one is of a known class.
        """
        assert self.model is not None
        self.student = None
        count = len(recent.standard)
        if self.classes == 1 or count < LEAST_TAUGHT:
            return
        masses = recent.ends @ one_hot(self.labeled.codes, self.classes)
        teachers = pooling.teaching(self.model.probabilities(recent.symbols), masses)
        self.student = taught(recent.standard, teachers, trust)
        before = self.calibrated_with
        grown = count >= min(2 * before, self.settings.memory) and count > before
        if grown or count < before:
            self.temperature = pooling.temperature(
                labeled, self.labeled.codes, self.labeled.folds, self.apart, recent, trust, self.classes
            )  # fmt: skip
            self.calibrated_with = count

    def _classes(self, standard: Floats, symbols: Ints, masses: Floats, found: Found) -> Floats:
        """Probability of each known class, shape (n, classes)."""
        assert self.model is not None
        classes = self.model.probabilities(symbols)
        if self.student is None:
            return classes
        teachers = pooling.teaching(classes, masses[:, : self.classes])
        student = self.student.probabilities(standard, found.leaves[-1])
        return pooling.cooled(pooling.pooled(teachers, student), self.temperature)

    def _measure_scale(self) -> None:
        x = np.concatenate([self.labeled.x, self._recent_x()])
        self.center, spread = moments(x)
        self.scale = np.where(spread > 1e-9 * (np.abs(self.center) + 1e-300), spread, 1.0)

    def _recent_x(self) -> Floats:
        return self.recent.x if len(self.recent.x) else np.empty((0, self.labeled.x.shape[1]))

    def _raw(self, x: Floats) -> Floats:
        # Learned features of a sample may differ with the batch it is in.
        return x[:, : self.groups[0]]

    def _standard(self, x: Floats) -> Floats:
        with np.errstate(over="ignore"):  # what is past float64's range is cut off as well
            standard: Floats = ((x - self.center) / self.scale).clip(-CLIP, CLIP)
        return standard

    def _space(self, standard: Floats) -> Floats:
        """Where distances are taken: ranks among samples in memory, of which each group of features weighs the same."""
        assert self.ranks is not None
        space = self.ranks.of(standard)
        if len(self.groups) == 1:
            return space
        return space * np.repeat(1 / np.sqrt(self.groups), self.groups)

    def _symbols(self, standard: Floats, leaves: Iterable[Ints] = ()) -> Ints:
        """Votes with their levels, shape (n, heuristics); `leaves` of forests, in their order, where they are known."""
        if not self.heuristics:
            return np.empty((len(standard), 0), dtype=np.int64)
        told = iter(leaves)
        return np.stack(
            [
                each.symbols(standard, next(told, None) if each.kind == "forest" else None)
                for each in self.heuristics
            ],
            axis=1,
        )

    def _index(self) -> Index:
        """What samples are looked up in: the graph, and the forests among the heuristics, the student last."""
        assert self.graph is not None
        forests = [
            each for each in (*self.heuristics, self.student) if each and each.kind == "forest"
        ]
        return Index(
            nodes=self.graph.nodes, labeled=len(self.graph.spans), near=NEIGHBOURS, forests=tuple(forests)
        )  # fmt: skip

    def _spread(self, masses: Floats) -> Ints:
        return pooling.spread(masses[:, : self.classes])

    # -- labeling

    def judge(self, x: Floats) -> Judged:
        """What samples are labeled as; nothing is learned from them."""
        if not len(x):
            return none_judged(self.classes, len(self.heuristics) + 1)
        assert self.graph is not None
        assert self.test is not None
        assert self.model is not None
        standard = self._standard(x)
        space = self._space(standard).astype(np.float32)
        found = self.look(self._index(), space, standard)
        placed = self.graph.place(found.near, found.labeled)
        symbols = np.column_stack(
            [self._symbols(standard, found.leaves), self._spread(placed.masses)]
        )
        score = self.test.score(self._surprise(placed.surprise, standard))
        p = self.test.p_values(score)
        classes = self._classes(standard, symbols, placed.masses, found)
        votes = votes_in(symbols)
        probability = classes.max(axis=1) * self.test.known.at(score)
        unsure = (probability < self.settings.confidence) | (votes < 0).all(axis=1)
        status = np.where(p <= self.test.level, UNKNOWN, LABELED)
        status = np.where((status == LABELED) & unsure, ABSTAINED, status)
        return Judged(
            status=status, classes=classes, probability=probability, p_value=p, score=score,
            cluster=self._clusters(placed, status == UNKNOWN), votes=votes,
        )  # fmt: skip

    def _clusters(self, placed: Placed, unknown: Bools) -> Ints:
        new = placed.masses[:, self.classes :]
        if not new.shape[1]:
            return np.full(len(unknown), ABSTAINS)
        known = placed.masses[:, : self.classes].sum(axis=1)
        likely = new.max(axis=1) > LEAST_OF_NEW * known
        return np.where(unknown & likely, new.argmax(axis=1), ABSTAINS)

    def take(self, x: Floats, readable: Bools) -> Judged:
        """What samples are labeled as, with what they teach.

        Args:
            x: Those that are readable.
            readable: Which they are of the samples that came, shape (came,).
        """
        rest, numbers = x, self.given + np.flatnonzero(readable)
        self.given += len(readable)
        while len(rest):  # looks come when they are due, within a batch, too, however large that is
            due = self.next_look - self.seen
            self.recent.add(rest[:due], self.seen, numbers[:due], self.random)
            self.seen += len(rest[:due])
            rest, numbers = rest[due:], numbers[due:]
            if self.seen >= self.next_look:
                self.connect()
        judged = self.judge(x)
        since = self._drifted(judged)
        if since is not None and self.seen - self.last_look >= self.settings.memory // 4:
            self._refresh(since)
            judged = self.judge(x)
        return judged

    # -- drift

    def _begin_watching(self) -> None:
        assert self.model is not None
        assert self.graph is not None
        assert self.test is not None
        count = len(self.labeled.codes)
        own = self.graph.own
        symbols = np.column_stack([self.labeled.symbols, self._spread(own.masses[:count])])
        votes = votes_in(symbols)
        result = self.model.probabilities(symbols).argmax(axis=1)
        wrong, voted = errors_among(votes, result, self.labeled.codes)
        rates = (wrong.sum(axis=0) + 1) / (voted.sum(axis=0) + 2)
        if self.errors is None or len(self.errors.base) != len(rates):
            self.errors = watch(rates, 0.25, LABELED_ALARMS)
        self.disagreements = learning_watch(votes.shape[1], 0.2, UNLABELED_ALARMS, LEARNS_RATE)
        self.strangers = learning_watch(self.classes, 0.3, UNLABELED_ALARMS, LEARNS_RATE)

    def _drifted(self, judged: Judged) -> int | None:
        """How many samples ago something changed, if something did."""
        if not len(judged.status):
            return None
        assert self.disagreements is not None
        assert self.strangers is not None
        best = judged.classes.argmax(axis=1)
        voted = judged.votes >= 0
        of_class = best[:, None] == np.arange(self.classes)[None, :]
        strange = np.broadcast_to((judged.p_value <= STRANGE)[:, None], of_class.shape)
        changes = []
        alarms = self.disagreements.see(judged.votes != best[:, None], voted)
        changes += list(self.disagreements.since[alarms])
        alarms = self.strangers.see(strange, of_class)
        # Counted in samples of the class; a class has its share of all.
        shares = np.maximum(of_class.mean(axis=0), 1 / len(of_class))
        changes += list((self.strangers.since / shares)[alarms])
        return int(max(changes)) if changes else None

    def _refresh(self, since: int) -> None:
        """Weighs heuristics by what came since a change, and retires those that no longer say anything."""
        self.drifts = [*self.drifts[-99:], self.given]
        enough = max(since, self.settings.memory // 2)
        self.recent.forget_before(self.seen - enough)
        self.connect()
        self._retire()

    def _retire(self) -> None:
        assert self.model is not None
        accuracies = self.model.accuracies[:-1]
        base = float(np.bincount(self.labeled.codes).max() / len(self.labeled.codes))
        useless = accuracies <= (base if self.classes > 1 else 0.0)
        if not useless.any():
            return
        self.retired += int(useless.sum())
        if useless.mean() > 0.5:
            self.generate()
            return
        self.heuristics, *self.apart = (
            [each for each, out in zip(rules, useless, strict=True) if not out]
            for rules in (self.heuristics, *self.apart)
        )
        self.labeled.symbols = self.labeled.symbols[:, ~useless]
        self.errors = None
        self.connect()

    # -- labels that a person gives

    def teach(self, x: Floats, codes: Ints) -> None:
        """Labeled samples that come later."""
        judged, asked = self.judge(x), self.recent.answer(self._raw(x))
        assert self.errors is not None
        wrong, voted = errors_among(judged.votes, judged.classes.argmax(axis=1), codes)
        # Samples that were asked for are those most likely labeled wrong: they tell nothing of all.
        alarms = self.errors.see(wrong, voted & ~asked[:, None])
        self.labeled.add(x, codes, self._symbols(self._standard(x)))
        self.taught += len(x)
        if alarms[-1]:
            self._change_concept(int(self.errors.since[-1]))
        elif alarms.any():
            self.errors = None
            self.generate()
        elif self.taught >= (REGENERATES - 1) * self.made_from:
            self._recognise()
            self.generate()
        elif self.taught - self.connected_with >= CONNECTS * self.made_from:
            self.connect()

    def _change_concept(self, since: int) -> None:
        """Forgets what held before, but for what it was; what held earlier still may hold again."""
        assert self.model is not None
        self.drifts = [*self.drifts[-99:], self.given]
        before = len(self.labeled.codes) - since
        if before > 0:
            old = slice(max(before - self.labeled.most // 2, 0), before)
            concept = Concept(
                x=self.labeled.x[old], codes=self.labeled.codes[old], heuristics=self.heuristics,
                model=self.model,
            )  # fmt: skip
            self.concepts = [*self.concepts[-(MOST_CONCEPTS - 1) :], concept]
            self.archive = [*self.archive, *self.heuristics][-MOST_ARCHIVED:]
        self.labeled.keep_last(since, of_each=2)
        share = since / max(len(self.labeled.codes), 1)
        self.recent.forget_before(self.seen - max(int(share * self.settings.memory), 100))
        self.errors = None
        self._recognise()
        self.generate()

    def _recognise(self) -> None:
        """Takes up an earlier concept whose heuristics do better on what came since than those of now."""
        if not self.concepts or not len(self.labeled.codes):
            return
        assert self.model is not None
        standard = self._standard(self.labeled.x)
        codes = self.labeled.codes
        now = combined(self.model, self.labeled.symbols) == codes
        best = recognised(self.concepts, standard, codes, now)
        if best is None:
            return
        concept = self.concepts.pop(best)
        self.archive = [*self.archive, *concept.heuristics][-MOST_ARCHIVED:]
        self.labeled = replace(
            self.labeled,
            x=np.concatenate([concept.x, self.labeled.x]),
            codes=np.concatenate([concept.codes, codes]),
            symbols=np.full((len(concept.codes) + len(codes), 0), ABSTAINS),
            folds=np.zeros(len(concept.codes) + len(codes), dtype=np.int64),
        )
        self.labeled.keep_last(self.labeled.most, of_each=1)

    # -- what a person decides

    def ask(self, count: int) -> tuple[Ints, Floats]:
        """Recent samples whose labels would help most: their numbers and raw features."""
        recent = self.recent
        judged = self.judge(self._recent_x())
        space, labeled = (
            self._space(self._standard(each)) for each in (self._recent_x(), self.labeled.x)
        )
        settled = recent.answered | among(self._raw(recent.x), self._raw(self.labeled.x))
        rows = asking.choose(space, 1 - judged.probability, settled, labeled, count)
        recent.asked[rows] = True
        return recent.numbers[rows], self._recent_x()[rows]

    def adopt(self, cluster: Cluster, code: int) -> None:
        """A new class gets a name; with that of a known class it becomes part of it."""
        self.discovery.clusters.remove(cluster)
        self.classes = max(self.classes, code + 1)
        self.labeled.add(
            cluster.core,
            np.full(len(cluster.core), code),
            np.full((len(cluster.core), len(self.heuristics)), ABSTAINS),
        )
        self.errors = None
        self.generate()

    def add_class(self, x: Floats, codes: Ints) -> None:
        """Labeled samples, some of classes that were not there."""
        self.recent.answer(self._raw(x))
        self.classes = int(max(self.classes, codes.max() + 1))
        symbols = np.full((len(x), len(self.heuristics)), ABSTAINS)
        self.labeled.add(x, codes, symbols)
        self.errors = None
        self.generate()
