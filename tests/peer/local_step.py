"""The local step in plain PyTorch: Hugging Face's layers, PEFT's LoRA, autograd, one thread.

    h_0 = embed(ids);  h_k = layers_k(detach(h_{k-1}));  p_k = softmax(head(norm(h_k)))
    loss_k = alpha CE(p_k, labels) + (1 - alpha) KL(p_k || p_{k-1})        the first chunk: CE alone

Each chunk is trained on its own loss through the frozen head, which reads all positions; labels of -100 are left out of
the loss by masking, as training loops usually do. A chunk has an AdamW of its own; m micro-batches make an update.

    local_step.py SETUP.json RESULT.json

SETUP: {"model", "adapter", "rows": [{"ids", "labels"}], "chunks", "batch", "accumulate", "alpha", "lr"}. RESULT: losses of
each window and chunk, seconds and CPU seconds of the training loop, peak memory of the process.
"""
import json
import pathlib
import resource
import sys
import time

import torch
import torch.nn.functional as F
from peft import PeftModel
from transformers import AutoModelForCausalLM

IGNORED = -100
PADDING = 2


def load_model(setup):
    """The GGUF file's weights expanded to fp32, with the adapter that training starts from."""
    path = pathlib.Path(setup["model"])
    base = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    return PeftModel.from_pretrained(base, setup["adapter"], is_trainable=True).train()


def micro_batch(rows):
    """Right-padded ids and labels [b, t]. Nothing attends to padding: it lies behind, and attention is causal."""
    length = max(len(row["ids"]) for row in rows)
    ids = torch.full((len(rows), length), PADDING)
    labels = torch.full((len(rows), length), IGNORED)
    for i, row in enumerate(rows):
        ids[i, : len(row["ids"])] = torch.tensor(row["ids"])
        labels[i, : len(row["labels"])] = torch.tensor(row["labels"])
    return ids, labels


class Chunk:
    def __init__(self, language_model, first, last, learning_rate):
        self.model = language_model.model
        self.head = language_model.lm_head
        self.layers = self.model.layers[first:last]
        parameters = [p for p in self.layers.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(parameters, lr=learning_rate, weight_decay=0.01)

    def forward(self, h, positions):
        rotary = self.model.rotary_emb(h, positions)
        for layer in self.layers:
            h = layer(h, position_ids=positions, position_embeddings=rotary)
        return h

    def log_probabilities(self, h):
        return F.log_softmax(self.head(self.model.norm(h)), dim=-1)


def local_loss(log_p, log_previous, labels, alpha):
    task = F.nll_loss(log_p[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=IGNORED)
    if log_previous is None or alpha == 1:
        return task, task
    supervised = labels[:, 1:] != IGNORED
    divergence = (log_p.exp() * (log_p - log_previous)).sum(-1)[:, :-1]
    return task, alpha * task + (1 - alpha) * (divergence * supervised).sum() / supervised.sum()


def train_window(language_model, chunks, batches, alpha):
    """Mean task loss of each chunk."""
    losses = [0.0] * len(chunks)
    for ids, labels in batches:
        positions = torch.arange(ids.shape[1])[None]
        h = language_model.model.embed_tokens(ids)
        log_previous = None
        for k, chunk in enumerate(chunks):
            h = chunk.forward(h.detach(), positions)
            log_p = chunk.log_probabilities(h)
            task, loss = local_loss(log_p, log_previous, labels, alpha)
            (loss / len(batches)).backward()
            losses[k] += task.item() / len(batches)
            log_previous = log_p.detach() if alpha < 1 else None
    for chunk in chunks:
        chunk.optimizer.step()
        chunk.optimizer.zero_grad()
    return losses


def main(setup_file, result_file):
    setup = json.loads(pathlib.Path(setup_file).read_text())
    torch.set_num_threads(1)
    language_model = load_model(setup).base_model.model
    layers = len(language_model.model.layers)
    chunks = [
        Chunk(language_model, layers * k // setup["chunks"], layers * (k + 1) // setup["chunks"], setup["lr"])
        for k in range(setup["chunks"])
    ]
    rows, b = setup["rows"], setup["batch"]
    batches = [micro_batch(rows[i : i + b]) for i in range(0, len(rows), b)]
    m = setup["accumulate"]
    wall, cpu = time.perf_counter(), time.process_time()
    losses = [
        train_window(language_model, chunks, batches[i : i + m], setup["alpha"]) for i in range(0, len(batches), m)
    ]
    result = {
        "losses": losses,
        "seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time() - cpu,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    pathlib.Path(result_file).write_text(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
