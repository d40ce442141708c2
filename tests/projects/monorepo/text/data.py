import torch
from torch.utils.data import DataLoader, IterableDataset

SENTENCES = [[3 + (7 * row + place) % 50 for place in range(4 + row % 5)] for row in range(120)]


class Sentences(IterableDataset):
    def __iter__(self):
        yield from SENTENCES  # planted: DG201, every worker yields all


def pad(samples):
    longest = max(map(len, samples))
    return torch.tensor([sample + [0] * (longest - len(sample)) for sample in samples])  # planted: DG407, no mask


def text_loader():
    return DataLoader(Sentences(), batch_size=8, num_workers=2, collate_fn=pad)
