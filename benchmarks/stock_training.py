"""What a user would write: sentence-transformers' trainer and peft, with the libraries' defaults."""

from __future__ import annotations

from datasets import Dataset
from peft import LoraConfig
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss


def trainer(
    base: str,
    triplets: Dataset,
    target_modules: str,
    batch: int,
    bf16: bool,
    folder: str,
    learning_rate: float = 2e-4,
) -> SentenceTransformerTrainer:
    """A trainer for one epoch over ``triplets`` (anchor, positive, negative) with LoRA r 64 on ``base``."""
    model = SentenceTransformer(base, device="cpu")
    model.add_adapter(
        LoraConfig(
            r=64, lora_alpha=128, lora_dropout=0.05, target_modules=target_modules, task_type="FEATURE_EXTRACTION"
        )
    )
    arguments = SentenceTransformerTrainingArguments(
        output_dir=folder,
        num_train_epochs=1,
        per_device_train_batch_size=batch,
        learning_rate=learning_rate,
        bf16=bf16,
        use_cpu=True,
        report_to="none",
    )
    return SentenceTransformerTrainer(
        model=model, args=arguments, train_dataset=triplets, loss=MultipleNegativesRankingLoss(model)
    )
