"""Models of machines, a TOML file each; the name of the file is that of the model."""

from importlib import resources

from weft.fabrics.machine_model import MachineModel, node_model, read_model


def _register(name: str, text: str) -> None:
    model = read_model(text, name, f"{name}.toml")

    def load() -> MachineModel:
        return model

    values = (f"{key} = {getattr(model, key)}: {why}\n" for key, why in model.source.items())
    load.__doc__ = "\n".join((model.summary, "", *values))
    node_model(name)(load)


for _file in resources.files(__name__).iterdir():
    if _file.name.endswith(".toml"):
        _register(_file.name.removesuffix(".toml"), _file.read_text("utf-8"))
