"""From a recipe to a run folder: train the adapter, resume what was interrupted, pass the gate, swap in.

While a run goes on, everything lies in a hidden folder beside its target: ``runs/.NAME.partial`` with checkpoints. The
target appears by one rename, with an adapter that the gate has loaded in a process of its own.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import importlib.metadata
import logging
import math
import platform
import shutil
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from accelerate import PartialState
from accelerate.utils.constants import FSDP_MODEL_NAME
from huggingface_hub import ModelCard
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import CachedMultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import Pooling
from transformers import ProgressCallback
from transformers.integrations.deepspeed import unset_hf_deepspeed_config

from dataset_builders.atomic import named, write_text
from dataset_builders.lock import locked
from hub_models import sharding, trained_claims, training_data
from hub_models.adapter import attach_lora
from hub_models.base import load_base, prompts
from hub_models.batching import DistinctClaimBatchSampler
from hub_models.buckets import BucketedMultipleNegativesRankingLoss
from hub_models.cards import write_card
from hub_models.dropout import cheapen
from hub_models.lora_forward import hasten
from hub_models.manifest import (
    ADAPTER_NAME,
    FILE_NAME,
    Manifest,
    adapter_sha256,
    check_adapter,
    is_machine_path,
)
from hub_models.model_files import missing_files, runs_own_code
from hub_models.processes import on_main
from hub_models.recipe import Recipe
from hub_models.release import PROBE_TEXTS, GateError, gate, probe
from hub_models.training_callbacks import (
    AdapterCheck,
    CheckpointMark,
    ProgressBar,
    RunLog,
    SamplerCheck,
    last_checkpoint,
)
from hub_models.training_data import TrainingSet

logger = logging.getLogger(__name__)

RUNS = Path("runs")
LOG_EVERY = 10  # steps
LONGEST_WAIT = timedelta(hours=2)  # of the other processes, while the main one takes a large model through the gate
_LIBRARIES = ("torch", "transformers", "sentence-transformers", "peft", "accelerate", "datasets")


def train(recipe: Recipe, out: Path | None = None) -> Path:
    """Train a recipe's adapter; all processes of a launcher call this alike.

    A run that is done is not repeated, one that was interrupted goes on from its last complete checkpoint, to the same
    adapter as an unbroken run (on a CPU in fp32, to the last bit).

    Args:
        recipe: What to train, and on what.
        out: The run folder; by default ``runs/{name}-{hash over recipe and rows}``.

    Returns:
        The run folder: adapter, tokenizer, modules, prompts, card, ``slant.json``, ``recipe.yaml``, ``train.log``.

    Raises:
        ValueError: If recipe, data and number of processes do not go together (before the base is loaded), or the base
            gives vectors that are not finite.
        FileExistsError: If ``out`` holds something else, or another process trains into it.
        RuntimeError: If the adapter does not learn, see `AdapterCheck`.
        GateError: If the trained folder does not pass `release.gate`; it is kept, with status ``failed``.
    """
    # Joins the other processes, if there are any.
    state = PartialState(cpu=not torch.accelerator.is_available(), timeout=LONGEST_WAIT)
    batch = recipe.per_device_batch(state.num_processes)
    with state.main_process_first():  # which builds the sample data
        rows = training_data.read(recipe)
    run = out or RUNS / f"{recipe.name}-{_run_hash(recipe, rows)[:8]}"
    with ExitStack() as held:  # the lock, by the main process, until all are through
        if on_main(state, lambda: _enter(run, recipe, rows, held)):
            on_main(state, lambda: _tidy(run))
            logger.info("already trained: %s", run)
        else:
            _train(run, recipe, rows, batch, state)
    return run


def _train(run: Path, recipe: Recipe, rows: TrainingSet, batch: int, state: PartialState) -> None:
    epochs = math.ceil(recipe.epochs)
    sampler = functools.partial(DistinctClaimBatchSampler, keys=rows.keys(), epochs=epochs)
    columns = rows.columns(recipe.query_template, recipe.negatives_per_anchor)
    batches = sampler(columns, batch, seed=recipe.seed)  # fails here, if at all, and counts the steps
    steps = math.ceil(len(batches) / state.num_processes / recipe.accumulation) * recipe.epochs
    partial, _ = _working_folders(run)
    on_main(state, lambda: _claim(partial, recipe, rows))

    sharded = sharding.is_wanted()
    model = _untrained(recipe, rows, "cpu" if sharded else None)  # one device may be too small for all of it
    if not torch.accelerator.is_available():
        cheapen(model)
        if not sharded:  # it would hold every frozen weight whole
            hasten(model)
    arguments = _arguments(recipe, partial, batch, math.ceil(steps), sampler)
    trainer = _Trainer(
        model=model,
        args=arguments,
        train_dataset=columns,
        loss=_loss(model, recipe, batch, gather=state.num_processes > 1),
        callbacks=[RunLog(partial), SamplerCheck(), CheckpointMark()],
    )
    if sharded:
        sharding.prepare(trainer.accelerator, model)
    trainer.add_callback(AdapterCheck(trainer.adapter_weights))
    trainer.remove_callback(ProgressCallback)
    trainer.add_callback(bar := ProgressBar())
    checkpoint = last_checkpoint(partial)
    logger.info(
        "%s: %d steps of %d rows, %d process(es)%s, %s, coverage %.3f%s", run.name, math.ceil(steps),
        recipe.global_batch * recipe.accumulation, state.num_processes, ", sharded" if sharded else "",
        precision_of(recipe), batches.coverage, f", resuming at {checkpoint.name}" if checkpoint else "",
    )  # fmt: skip
    with _full_disk_named(partial), closing(bar):  # what is said of a fault begins a line of its own
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    weights = trainer.adapter_weights()
    on_main(
        state, lambda: _finish(run, partial, _trained(trainer, weights, recipe, rows), recipe, rows, trainer.state)
    )


def _untrained(recipe: Recipe, rows: TrainingSet, device: str | None = None) -> SentenceTransformer:
    """The base, with prompts and an adapter that does nothing yet."""
    model = load_base(recipe, device=device)
    _require_finite(model, recipe)
    model.prompts = prompts(recipe.query_template, rows.family)
    attach_lora(model, recipe)
    return model


def _trained(
    trainer: _Trainer, weights: dict[str, torch.Tensor], recipe: Recipe, rows: TrainingSet
) -> SentenceTransformer:
    """The trained model in one piece; of a sharded run, the base loaded anew with the gathered adapter in it."""
    if sharding.is_wanted():
        unset_hf_deepspeed_config()  # else transformers would shard what it loads, and wait for the other processes
        model = _untrained(recipe, rows, "cpu")
        sharding.load_adapter(model, weights)
        return model
    # Training in half precision wraps forward in autocast, which loading the release will not do.
    plain: SentenceTransformer = trainer.accelerator.unwrap_model(trainer.model, keep_fp32_wrapper=False)
    return plain


@contextmanager
def _full_disk_named(partial: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC or error.filename is not None:
            raise
        raise named(error, partial, "the one before is kept: free some space and run this again") from error
    except RuntimeError as error:
        if "inline_container" not in str(error):  # where torch.save fails, whatever the reason
            raise
        raise OSError(
            f"writing a checkpoint into {partial} failed; the one before is kept: free some space and run this again"
        ) from error


def _require_finite(model: SentenceTransformer, recipe: Recipe) -> None:
    if not np.isfinite(model.encode(PROBE_TEXTS[0], show_progress_bar=False)).all():
        raise ValueError(
            f"base {recipe.base}: its vector of {PROBE_TEXTS[0]!r} is not finite (NaN or infinite), so nothing can be "
            "learnt on it; are its weights damaged, or made for another precision? Get them anew or set another base"
        )


def precision_of(recipe: Recipe) -> Literal["fp32", "bf16", "fp16"]:
    """The precision that ``auto`` stands for on this machine: bf16 where the device has units for it, else fp32."""
    if recipe.precision != "auto":
        return recipe.precision
    if torch.cuda.is_available():
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"
    if torch.accelerator.is_available():
        return "fp32"
    has_units = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return "bf16" if has_units else "fp32"


def _arguments(
    recipe: Recipe, folder: Path, batch: int, steps: int, sampler: Any
) -> SentenceTransformerTrainingArguments:
    precision = precision_of(recipe)
    return SentenceTransformerTrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=batch,
        gradient_accumulation_steps=recipe.accumulation,
        num_train_epochs=recipe.epochs,
        learning_rate=recipe.learning_rate,
        warmup_steps=recipe.warmup,
        lr_scheduler_type=recipe.schedule,
        bf16=precision == "bf16",
        fp16=precision == "fp16",
        activation_checkpointing=recipe.gradient_checkpointing,
        activation_checkpointing_kwargs={"use_reentrant": False} if recipe.gradient_checkpointing else None,
        batch_sampler=sampler,
        seed=recipe.seed,
        data_seed=recipe.seed,
        logging_steps=LOG_EVERY,
        # A multiple of the logging steps: a mean loss that a checkpoint cuts in two would be logged wrongly.
        save_steps=LOG_EVERY * max(1, steps // (5 * LOG_EVERY)),
        save_total_limit=2,
        use_cpu=not torch.accelerator.is_available(),
        report_to="none",
    )


def _loss(model: SentenceTransformer, recipe: Recipe, batch: int, gather: bool) -> Any:
    """The recipe's loss for ``batch`` rows a process."""
    common: dict[str, Any] = {"scale": recipe.loss.scale, "gather_across_devices": gather}
    mini_batch = recipe.loss.mini_batch_of(batch)
    if mini_batch is None:
        return BucketedMultipleNegativesRankingLoss(model, **common)
    return CachedMultipleNegativesRankingLoss(model, mini_batch_size=mini_batch, **common)


class _Trainer(SentenceTransformerTrainer):  # type: ignore[misc]
    """Its checkpoints hold the adapter and the trainer's state: the rest is in the recipe.

    The original would load the base anew on resuming, and not at the commit that is pinned.
    """

    def adapter_weights(self) -> dict[str, torch.Tensor]:
        """See `sharding.adapter_weights`."""
        return sharding.adapter_weights(self.accelerator, self.model_wrapped)

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        if not self.args.should_save:
            return
        folder = Path(output_dir or self.args.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        weights = sharding.of_adapter(self.model.state_dict() if state_dict is None else state_dict)
        (folder / ADAPTER_NAME).write_bytes(save({name: w.contiguous() for name, w in weights.items()}))

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        if self.args.should_save:  # under FSDP2 the whole model is written too
            (Path(output_dir) / f"{FSDP_MODEL_NAME}.bin").unlink(missing_ok=True)

    def _load_from_checkpoint(self, checkpoint_path: str, model: Any = None) -> None:
        sharding.load_adapter(self.model, load_file(Path(checkpoint_path) / ADAPTER_NAME))


def _run_hash(recipe: Recipe, rows: TrainingSet) -> str:
    return hashlib.sha256(f"{recipe.hash} {rows.hash}".encode()).hexdigest()


def _enter(run: Path, recipe: Recipe, rows: TrainingSet, held: ExitStack) -> bool:
    """Lock ``run`` until ``held`` is left, and say whether it is done already."""
    held.enter_context(_lock(run))
    return _is_done(run, recipe, rows)


@contextmanager
def _lock(run: Path) -> Iterator[None]:
    """Keep other processes away from ``run`` and its working folder. A process that is killed lets go too.

    Raises:
        FileExistsError: If another process holds it.
    """
    path = run.with_name(f".{run.name}.lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path) as mine:
        if not mine:
            raise FileExistsError(
                f"{run}: another process trains into {run.name}; wait for it or choose another folder with --out"
            )
        yield


def _is_done(run: Path, recipe: Recipe, rows: TrainingSet) -> bool:
    """Whether ``run`` holds this very run, whole, and passed the gate."""
    if not run.exists() or (run.is_dir() and not any(run.iterdir())):
        return False
    if not (run / FILE_NAME).is_file():
        raise FileExistsError(f"{run}: there is something that is no run of ours; choose another folder with --out")
    manifest = Manifest.read(run)
    if manifest.recipe_sha256 != recipe.hash or manifest.data != rows.parts:
        raise FileExistsError(
            f"{run}: holds a run of another recipe or other data ({manifest.name}); remove it or choose another "
            "folder with --out"
        )
    if manifest.status == "failed":
        return False
    try:
        if missing := missing_files(run):
            raise ValueError(f"{run} lacks {', '.join(missing)}")
        check_adapter(run, manifest.adapter_sha256)
    except ValueError as error:
        logger.warning("%s; training anew", error)
        return False
    return True


def _working_folders(run: Path) -> tuple[Path, Path]:
    """What a run is made in, and where the failed one that it replaces stands for a moment."""
    return run.with_name(f".{run.name}.partial"), run.with_name(f".{run.name}.old")


def _tidy(run: Path) -> None:
    """Remove what a process left that was killed when the run stood there already."""
    for left in _working_folders(run):
        shutil.rmtree(left, ignore_errors=True)


def _claim(partial: Path, recipe: Recipe, rows: TrainingSet) -> None:
    """Make the working folder, or keep it if it belongs to this very run."""
    owner = partial / "run.sha256"
    if partial.exists() and (not owner.exists() or owner.read_text(encoding="utf-8") != _run_hash(recipe, rows)):
        logger.info("%s: left by another run, starting anew", partial)
        shutil.rmtree(partial)
    partial.mkdir(parents=True, exist_ok=True)
    write_text(owner, _run_hash(recipe, rows))


def _finish(
    run: Path, partial: Path, model: SentenceTransformer, recipe: Recipe, rows: TrainingSet, state: Any
) -> None:
    """Write the release folder, take it through the gate and swap it in."""
    staged = partial / "release"
    shutil.rmtree(staged, ignore_errors=True)
    with warnings.catch_warnings():  # peft looks on the Hub whether the vocabulary grew, and says so when it cannot
        warnings.filterwarnings("ignore", message="Could not find a config file in")
        try:
            model.save_pretrained(str(staged), create_model_card=False)
        except SafetensorError as error:  # its way to say that the disk is full
            raise OSError(f"writing {staged} failed, what was trained is kept: {error}") from None
    shutil.copy(partial / "train.log", staged)
    write_text(staged / "recipe.yaml", _public(recipe, rows).to_yaml())
    trained_claims.write(staged, rows.trained_on())
    manifest = _manifest(staged, model, recipe, rows, state)
    manifest.write(staged)
    write_card(staged)
    trained = probe(model)
    trained.write(staged)
    failure = None
    try:
        gate(staged, trained, check_paths=manifest.status != "local")
    except GateError as error:
        failure = str(error)
        manifest.model_copy(update={"status": "failed", "failure": failure}).write(staged)
    _, old = _working_folders(run)
    shutil.rmtree(old, ignore_errors=True)
    if run.exists():
        run.rename(old)
    try:
        staged.rename(run)
    except OSError:
        if old.exists():
            old.rename(run)
        raise
    shutil.rmtree(old, ignore_errors=True)
    shutil.rmtree(partial)
    if failure is not None:
        raise GateError(f"{run} did not pass the gate and is marked as failed: {failure}")
    logger.info("trained, and loaded in a fresh process: %s", run)


def _public(recipe: Recipe, rows: TrainingSet) -> Recipe:
    """The recipe as a release shows it: data by its bare name where a path of this machine stood."""
    data = [
        entry.model_copy(update={"path": part.name}) if is_machine_path(entry.path or "") else entry
        for entry, part in zip(recipe.data, rows.parts, strict=True)
    ]
    return recipe.model_copy(update={"data": tuple(data)})


def _manifest(staged: Path, model: SentenceTransformer, recipe: Recipe, rows: TrainingSet, state: Any) -> Manifest:
    losses = [entry["loss"] for entry in state.log_history if "loss" in entry]
    curriculum = rows.parts[0].config if rows.family == "stance" else None
    is_folder = Path(recipe.base).is_dir()
    base_revision = recipe.base_revision or getattr(model.transformers_model.config, "_commit_hash", None)
    own_code = runs_own_code(recipe.base, base_revision, recipe.trust_remote_code)
    return Manifest(
        name=f"{recipe.name}-lora" if curriculum in (None, "mixed_aug") else f"{recipe.name}-{curriculum}-lora",
        status="local" if is_folder else "trained",
        base=recipe.base,
        base_revision=base_revision,
        base_licence=recipe.base_licence or (None if is_folder else _licence(recipe.base)),
        query_template=recipe.query_template,
        prompts=model.prompts,
        max_seq_length=model.max_seq_length,
        max_query_length=recipe.max_query_length,
        code_revision=(base_revision or "a folder") if own_code else None,
        pooling=next(m.pooling_mode for m in model if isinstance(m, Pooling)),
        seed=recipe.seed,
        recipe_sha256=recipe.hash,
        data=rows.parts,
        adapter_sha256=adapter_sha256(staged),
        steps=state.global_step,
        train_loss=sum(losses) / len(losses) if losses else None,
        versions={"python": platform.python_version(), **{n: importlib.metadata.version(n) for n in _LIBRARIES}},
    )


def _licence(base: str) -> str | None:
    """What the base's own card says, if the Hub or its cache has one."""
    try:
        licence = ModelCard.load(base).data.license
    except (OSError, ValueError):
        return None
    return str(licence) if licence else None
