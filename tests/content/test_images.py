"""Images: reading them, whatever they are, and features of them."""

import io
import json
import zipfile

import numpy as np
import polars as pl
import pytest
from cli.program import tastespace

pytest.importorskip("sklearn", reason="needs the extra content")
pytest.importorskip("PIL", reason="needs the extra content")

from PIL import Image as image_module

from tastespace.content.images import PRESETS, ImageFeatures, colors, gradients
from tastespace.content.model import ContentModel
from tastespace.content.pictures import read_image, read_images
from tastespace.content.storing import load, save
from tastespace.errors import DataError, InvalidParameterError, NotFittedError


def stripes(n=60, size=32, seed=0):
    """Images of horizontal, vertical and diagonal stripes of any color, and which of these they are."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, 3, n)
    down, right = np.mgrid[:size, :size]
    places = [down, right, down + right]
    found = []
    for kind in kinds:
        on = np.sin(places[kind] * rng.uniform(0.7, 1.0) + rng.uniform(0, 6)) > 0
        first, second = rng.integers(0, 256, (2, 3))
        found.append(np.where(on[..., None], first, second) + rng.normal(0, 5, (size, size, 3)))
    return np.clip(found, 0, 255).astype(np.uint8), kinds


def saved(path, array, **options):
    path.parent.mkdir(exist_ok=True)
    image_module.fromarray(array).save(path, **options)
    return path


def test_a_folder_of_images_of_every_kind(tmp_path):
    red = np.zeros((40, 60, 3), np.uint8)
    red[..., 0] = 255
    saved(tmp_path / "cats" / "red.png", red)
    saved(tmp_path / "cats" / "red.jpg", red)
    saved(tmp_path / "dogs" / "grey.png", np.full((50, 50), 100, np.uint8))
    clear = np.zeros((50, 50, 4), np.uint8)
    clear[:25, :, :] = 255
    saved(tmp_path / "dogs" / "clear.png", clear)
    saved(tmp_path / "dogs" / "deep.png", np.linspace(0, 65535, 1600).reshape(40, 40).astype(np.uint16))
    (tmp_path / "notes.md").write_text("no image")
    whole = (tmp_path / "cats" / "red.png").read_bytes()
    (tmp_path / "broken.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "junk.jpg").write_bytes(bytes(range(256)) * 9)
    found = read_images(tmp_path, size=16)
    assert found.ids.to_list() == ["cats/red.jpg", "cats/red.png", "dogs/clear.png", "dogs/deep.png", "dogs/grey.png"]
    assert found.pixels.shape == (5, 16, 16, 3)
    assert found.attributes["folder"].to_list() == ["cats", "cats", "dogs", "dogs", "dogs"]
    assert (found.pixels[1] == [255, 0, 0]).all()
    assert (found.pixels[2] == 255).all()  # transparent black is shown on white
    assert (found.pixels[4] == 100).all()
    assert found.pixels[3].min() < 20 < 230 < found.pixels[3].max()
    assert sorted(found.remarks) == [
        "1 set aside, no images: 'notes.md'",
        "2 set aside, broken images: 'broken.png', 'junk.jpg'",
    ]
    with pytest.raises(DataError, match="this is no image, or a broken one"):
        read_image(tmp_path / "broken.png", 16)
    with pytest.raises(DataError, match="there is no such file"):
        read_image(tmp_path / "none.png", 16)


def test_images_in_an_archive_and_those_that_fill_memory(tmp_path, monkeypatch):
    stream = io.BytesIO()
    image_module.fromarray(np.zeros((300, 300, 3), np.uint8)).save(stream, "PNG")
    small = io.BytesIO()
    image_module.fromarray(np.zeros((20, 20, 3), np.uint8)).save(small, "PNG")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        packed.writestr("large.png", stream.getvalue())
        packed.writestr("small.png", small.getvalue())
    monkeypatch.setattr("PIL.Image.MAX_IMAGE_PIXELS", 10_000)
    found = read_images(tmp_path / "a.zip")
    assert found.ids.to_list() == ["small.png"]
    assert found.remarks == ("1 set aside, broken images: 'large.png'",)
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match="there is no image"):
        read_images(tmp_path / "none")


@pytest.mark.parametrize("preset", ["default", "hog", "pixels", "pca"])
def test_similar_stripes_are_found(preset, tmp_path):
    images, kinds = stripes()
    features = ImageFeatures.preset(preset)
    found = features.fit_transform(images)
    others, their_kinds = stripes(30, seed=1)
    top = np.argsort(-features.transform(others) @ found.T, axis=1)[:, :5]
    hits = (kinds[top] == their_kinds[:, None]).mean()
    assert hits > (0.85 if features.method == "hog" else 0.3)
    again = ImageFeatures(**features.get_params()).restore(features.state())
    np.testing.assert_array_equal(again.transform(others), features.transform(others))
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-4)
    assert len(features.get_feature_names_out()) == found.shape[1]


def test_gradients_of_one_edge():
    """A vertical edge votes for the direction of its gradient, which is horizontal."""
    image = np.zeros((1, 8, 8, 3), np.uint8)
    image[:, :, 4:] = 255
    histogram = gradients(image).reshape(4, 9).sum(axis=0)
    assert set(np.argsort(-histogram)[:2]) == {0, 8}  # 0 degrees lies between the first and the last
    assert histogram[2:7].max() < 1e-6
    np.testing.assert_allclose(np.linalg.norm(colors(image)), 1, rtol=1e-5)


@pytest.mark.deep
@pytest.mark.parametrize("preset", ["autoencoder", "autoencoder-pca"])
def test_an_autoencoder_answers_as_torch_does(preset):
    torch = pytest.importorskip("torch", reason="needs the extra deep")
    images, _ = stripes(64, size=16)
    features = ImageFeatures.preset(preset, size=16, epochs=2, dropout=0.2, seed=1)
    found = features.fit_transform(images)
    np.testing.assert_array_equal(found, ImageFeatures(**features.get_params()).fit_transform(images))
    again = ImageFeatures(**features.get_params()).restore(features.state())
    np.testing.assert_array_equal(again.transform(images), features.transform(images))
    network = features.network_
    codes = network.encode(images)
    assert codes.shape == (64, 2 * 2 * 64)
    assert network.decode(codes).shape == images.shape
    values = torch.from_numpy(images.astype(np.float32) / 255 - 0.5).permute(0, 3, 1, 2)
    for one in network.convolutions[:3]:
        weights = torch.from_numpy(one.weights.reshape(3, 3, *one.weights.shape[1:])).permute(3, 2, 0, 1)
        values = torch.nn.functional.conv2d(values, weights, torch.from_numpy(one.bias), padding=1)
        values = torch.nn.functional.max_pool2d(values.relu(), 2)
    np.testing.assert_allclose(codes, values.permute(0, 2, 3, 1).reshape(64, -1).numpy(), rtol=1e-3, atol=1e-4)


@pytest.mark.deep
def test_training_lowers_the_error():
    pytest.importorskip("torch", reason="needs the extra deep")
    images, _ = stripes(200, size=16)

    def error(epochs):
        network = ImageFeatures.preset("autoencoder", size=16, epochs=epochs, dropout=0.0).fit(images).network_
        return np.mean((network.decode(network.encode(images)).astype(float) - images) ** 2)

    assert error(12) < 0.8 * error(1)


def test_invalid_images():
    with pytest.raises(NotFittedError):
        ImageFeatures().transform(stripes(2)[0])
    for wrong, message in (
        (np.zeros((2, 16, 16, 3), np.uint8), r"shape \(2, 16, 16, 3\); expected \(n, 32, 32, 3\)"),
        (np.zeros((2, 32, 32, 3)), "of type float64; expected whole numbers"),
    ):
        with pytest.raises(DataError, match=message):
            ImageFeatures().fit(wrong)
    for parameters in ({"method": "sift"}, {"size": 4}, {"method": "autoencoder", "size": 12}, {"whitening": -1}):
        with pytest.raises(InvalidParameterError):
            ImageFeatures(**parameters).check()
    assert set(PRESETS) >= {"pixels", "pca", "hog", "autoencoder"}


def test_a_content_model_of_images_on_the_command_line(tmp_path):
    images, kinds = stripes(40)
    for number, (image, kind) in enumerate(zip(images, kinds, strict=True)):
        saved(tmp_path / "images" / f"{kind}-{number:02}.png", image)
    done = tastespace(
        *("content", "fit", tmp_path / "images", "--kind", "images", "--out", tmp_path / "model"),
        *("--set", "n_components=16"),
    )
    assert done.returncode == 0, done.stderr
    assert "40 items with 16 features" in done.stdout
    query = saved(tmp_path / "query.png", stripes(1, seed=5)[0][0])
    answer = json.loads(tastespace("content", "search", tmp_path / "model", "--image", query, "--json").stdout)
    expected = str(stripes(1, seed=5)[1][0])
    assert sum(entry["item"].startswith(expected) for entry in answer["items"][:5]) >= 4
    model = load(tmp_path / "model")
    assert model.pictures_[0].startswith(b"\xff\xd8")  # a JPEG, to be shown
    save(ContentModel(model.features).fit(read_images(tmp_path / "images")), tmp_path / "model")
    done = tastespace("content", "features", tmp_path / "model", "--out", tmp_path / "f.parquet")
    assert done.returncode == 0, done.stderr
    assert pl.read_parquet(tmp_path / "f.parquet").height == 40
    done = tastespace("content", "search", tmp_path / "model", "some words")
    assert done.returncode == 1
    assert "is of images; expected --image FILE" in done.stderr
