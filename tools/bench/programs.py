"""The programs of rows.txt as PyTorch has them: inputs by name, in declared order, and the function of them.

A function is what a user of PyTorch would write, and works in any dtype: on the inputs in float64 it is the reference.
"""

import torch
import torch.nn.functional as F


def normal(*shape, dtype=torch.float32, scale=1.0):
    return (torch.randn(*shape, device="cuda") * scale).to(dtype)


def map_chain(a, b, c):
    return torch.tanh(torch.abs(torch.relu(a * b + c) * a - b) + c)


def softmax(x):
    return torch.softmax(x, -1)


def layer_norm(x, w, b):
    return F.layer_norm(x, x.shape[-1:], w, b)


def rms_norm(x, w):
    return F.rms_norm(x, x.shape[-1:], w, 1e-6)


def amax(x):
    return torch.amax(x)


def column_mean(x):
    return torch.mean(x, 0)


def transpose_add(a, b):
    return a.T + b


def matmul(a, b):
    return a @ b


def mlp(x, w1, b1, w2, b2):
    return F.linear(F.gelu(F.linear(x, w1, b1)), w2, b2) + x


def attention_scores(q, k, mask):
    return torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + mask, -1)


def quant_linear(x, logits, w, bias):
    """The steps are taken in float32 in any case: in float64 some elements would fall to the other side of one."""
    alpha = torch.sigmoid(logits)[:, :, None]
    scale = torch.clamp(torch.max(torch.abs(x.float())), min=1e-8) / 127
    xq = torch.clamp(torch.round(x.float() / scale), -127, 127).to(x.dtype) * scale
    return F.linear(alpha * xq + (1 - alpha) * x, w, bias)


def linear_mean_gelu(x, w, bias, subtract):
    h = F.linear(x, w, bias) - subtract
    s = torch.logsumexp(torch.mean(h, 1, keepdim=True), 1, keepdim=True)
    return F.gelu(s) + x


def inputs(program, size):
    """The program's inputs and weights for these sizes, on the GPU."""
    dtype = torch.bfloat16 if program.endswith("_bf16") else torch.float32
    match program.removesuffix("_bf16").removesuffix("_f32"):
        case "map_chain":
            return {name: normal(size["N"]) for name in "abc"}
        case "softmax":
            return {"x": normal(size["R"], size["N"], dtype=dtype)}
        case "layer_norm":
            return {"x": normal(size["R"], size["N"], dtype=dtype), "w": normal(size["N"], dtype=dtype),
                    "b": normal(size["N"], dtype=dtype)}
        case "rms_norm":
            return {"x": normal(size["R"], size["N"], dtype=dtype), "w": normal(size["N"], dtype=dtype)}
        case "amax":
            return {"x": normal(size["N"])}
        case "column_mean":
            return {"x": normal(size["R"], size["N"])}
        case "transpose_add":
            return {name: normal(size["N"], size["N"]) for name in "ab"}
        case "matmul":
            return {name: normal(size["N"], size["N"]) for name in "ab"}
        case "mlp":
            b, d, h = size["B"], size["D"], size.get("H", 4 * size["D"])
            return {"x": normal(b, d), "w1": normal(h, d, scale=d**-0.5), "b1": normal(h),
                    "w2": normal(d, h, scale=h**-0.5), "b2": normal(d)}
        case "attention_scores":
            b, h, t, s, d = (size[name] for name in "BHTSD")
            return {"q": normal(b, h, t, d), "k": normal(b, h, s, d), "mask": normal(t, s)}
        case "quant_linear":
            b, t, d = size["B"], size["T"], size["D"]
            n = size.get("N", d)
            return {"x": normal(b, t, d), "logits": normal(b, t), "w": normal(n, d, scale=d**-0.5), "bias": normal(n)}
        case "linear_mean_gelu":
            b, i, o = size["B"], size["I"], size["O"]
            return {"x": normal(b, i), "w": normal(o, i, scale=i**-0.5), "bias": normal(o), "subtract": normal(o)}
    raise KeyError(program)


def output(program):
    """The name of the program's output."""
    return "p" if program == "attention_scores" else "y"


def function(program):
    return globals()[program.removesuffix("_bf16").removesuffix("_f32")]


def errors(program, got, expected):
    """How far an output is from the reference in float64, and whether that is near enough: half an ulp of the store and
    what an f32 computation of this length may lose; a mean may lose what its terms, which are of size 1, lose."""
    relative, absolute = (2**-8, 1e-5) if got.dtype == torch.bfloat16 else (1e-5, 2e-6)
    scale = 0.1 if program == "column_mean" else expected.abs().max().item()
    got = got.double().reshape(expected.shape)
    error = (got - expected).abs()
    ok = not torch.isnan(got).any().item() and (error <= relative * expected.abs() + absolute * scale).all().item()
    return {"by": "PyTorch in float64", "max_abs_error": error.max().item(),
            "relative_l2_error": (error.norm() / expected.norm()).item(), "ok": ok}
