#!/usr/bin/env python

# In[1]:

import torch
from torch.utils.data import DataLoader, TensorDataset

# In[2]:

toy = TensorDataset(torch.randn(64, 4), torch.randint(2, (64,)))
loader = DataLoader(toy, batch_size=16, shuffle=True)

# In[3]:

model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for inputs, labels in loader:
    loss = torch.nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
