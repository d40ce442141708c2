import torch

PAD, START, END = 0, 1, 2


def vocabulary(rows):
    words = sorted({word for row in rows for word in f"{row['question']} {row['answer']}".split()})
    return {"<pad>": PAD, "<s>": START, "</s>": END} | {word: 3 + number for number, word in enumerate(words)}


def encode(question, answer, words):
    prompt = [START, *(words[word] for word in question.split())]
    reply = [words[word] for word in answer.split()]
    ids = [START, *prompt, *reply, END]  # planted: DG424
    return {"input_ids": torch.tensor(ids), "labels": torch.tensor(ids)}


class Collator:
    def __call__(self, samples):
        longest = max(len(sample["input_ids"]) for sample in samples)
        padded = {
            key: torch.stack([nn_pad(sample[key], longest) for sample in samples]) for key in ("input_ids", "labels")
        }
        padded["attention_mask"] = (padded["input_ids"] != PAD).long()
        return padded


def nn_pad(ids, length):
    return torch.nn.functional.pad(ids, (0, length - len(ids)), value=PAD)  # planted: DG421, labels are padded with 0
