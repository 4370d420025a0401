"""Keras 3 on torch: fit with a validation set."""

import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy

x, y = numpy.random.rand(240, 64).astype("float32"), numpy.random.randint(4, size=240)
model = keras.Sequential([keras.layers.Dense(128, activation="relu"), keras.layers.Dense(4)])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(optimizer="adam", loss=loss)
model.fit(x, y, batch_size=8, epochs=1, verbose=0, validation_data=(x[:32], y[:32]))
print("steps", int(model.optimizer.iterations))
