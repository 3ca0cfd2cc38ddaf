"""Train a small network inside torch.compile, in the order of least memory. Needs `torch`."""

import torch

import optsched.plugins
from optsched.plugins.inductor import enabled

torch.manual_seed(0)


class Branches(torch.nn.Module):
    """Six wide branches, computed one after another and used later."""

    def __init__(self):
        super().__init__()
        self.up = torch.nn.ModuleList(torch.nn.Linear(64, 512) for _ in range(6))
        self.down = torch.nn.ModuleList(torch.nn.Linear(512, 64) for _ in range(6))

    def forward(self, x):
        wide = [layer(x).tanh() for layer in self.up]
        return sum(layer(y) for layer, y in zip(self.down, wide, strict=True))


model, x = Branches(), torch.randn(256, 64)
model(x).square().mean().backward()
expected = [parameter.grad.clone() for parameter in model.parameters()]
model.zero_grad()

with enabled(time_limit=5):
    torch.compile(model)(x).square().mean().backward()

for parameter, gradient in zip(model.parameters(), expected, strict=True):
    torch.testing.assert_close(parameter.grad, gradient)
print(f"{len(expected)} gradients as without compiling")
for line in optsched.plugins.explain().splitlines():
    print(line.split(":")[0].split(",")[0])
