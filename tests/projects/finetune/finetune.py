"""Fine-tune a causal language model on answers: python finetune.py"""

import json

import torch
from chat import Collator, encode, vocabulary
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Conversations(Dataset):
    def __init__(self, rows, words):
        self.rows = rows
        self.words = words

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = self.rows[index]
        return encode(row["question"], row["answer"], self.words)


class Model(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.embedding = nn.Embedding(words, 16)
        self.head = nn.Linear(16, words)

    def forward(self, ids):
        return self.head(self.embedding(ids))


with open("conversations.jsonl") as file:
    rows = [json.loads(line) for line in file]
words = vocabulary(rows)
train_rows, val_rows = rows[:180], rows[160:]  # planted: DG514
train_loader = DataLoader(
    Conversations(train_rows, words), batch_size=8, num_workers=2, collate_fn=Collator()
)  # planted: DG207
val_loader = DataLoader(Conversations(val_rows, words), batch_size=8, num_workers=2, collate_fn=Collator())
model = Model(len(words))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for epoch in range(3):
    for batch in train_loader:
        logits = model(batch["input_ids"])
        loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), batch["labels"][:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        for batch in val_loader:
            model(batch["input_ids"])
