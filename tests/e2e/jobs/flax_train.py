"""JAX and Flax: a jitted training step; the job itself blocks only where it reads the loss."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy
import optax


class Model(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(4)(nn.relu(nn.Dense(256)(x)))


model, optimizer = Model(), optax.adam(1e-3)
parameters = model.init(jax.random.PRNGKey(0), jnp.zeros((1, 64)))
state = optimizer.init(parameters)


@jax.jit
def train_step(parameters, state, x, y):
    def loss_of(parameters):
        logits = model.apply(parameters, x)
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    loss, gradients = jax.value_and_grad(loss_of)(parameters)
    updates, state = optimizer.update(gradients, state)
    return optax.apply_updates(parameters, updates), state, loss


random = numpy.random.default_rng(0)
steps = 0
for _ in range(60):
    x, y = random.random((32, 64), numpy.float32), random.integers(0, 4, 32)
    parameters, state, loss = train_step(parameters, state, x, y)
    steps += 1
    if steps % 10 == 0:
        print("loss", round(float(loss), 3) > 0)
print("steps", steps)
