// Derivatives. The stable ABI has no way to make a node of PyTorch's graph of derivatives, so that part is registered
// with torch.library.register_autograd by a few lines of Python, which run in the interpreter of the process when the
// library is loaded. The derivative itself is an operator like any other.
#pragma once
#include <dlfcn.h>

#include <string>
#include <tuple>
#include <utility>

#include "tessera/torch/operator.hpp"

namespace tessera::pytorch {

/// Runs a program in the Python interpreter of the process, under its lock; does nothing where there is none. The
/// interpreter is found by name: this library works with every Python, and without. Throws DeviceError if the program
/// fails (Python has printed why).
inline void run_python(const std::string& program) {
  const auto find = [](const char* name) { return dlsym(RTLD_DEFAULT, name); };
  const auto initialized = reinterpret_cast<int (*)()>(find("Py_IsInitialized"));
  if (initialized == nullptr || initialized() == 0) return;
  const auto ensure = reinterpret_cast<int (*)()>(find("PyGILState_Ensure"));
  const auto release = reinterpret_cast<void (*)(int)>(find("PyGILState_Release"));
  const auto run = reinterpret_cast<int (*)(const char*, void*)>(find("PyRun_SimpleStringFlags"));
  if (ensure == nullptr || release == nullptr || run == nullptr)
    throw DeviceError("the Python of this process does not export PyGILState_Ensure and PyRun_SimpleStringFlags");
  const int state = ensure();
  const int failed = run(program.c_str(), nullptr);
  release(state);
  if (failed != 0) throw DeviceError("registering derivatives with PyTorch failed; Python's message is above");
}

/// The program for run_python(): `saved` lists what is kept, as ("a", i) for argument i of the forward and ("r", i) for
/// its result i; `results` are those with a gradient, `differentiable` the arguments that get one. Everything else is
/// the same for every operator.
inline std::string autograd_program(const std::string& space, const std::string& name, const std::string& backward,
                                    const std::string& saved, const std::string& results,
                                    const std::string& differentiable) {
  static constexpr const char* kBody = R"(
def _tessera_register(space, name, backward_name, saved, results, differentiable):
    import torch
    backward_operator = getattr(getattr(torch.ops, space), backward_name).default

    def setup_context(ctx, inputs, output):
        outputs = output if isinstance(output, (tuple, list)) else (output,)
        values = [inputs[i] if which == "a" else outputs[i] for which, i in saved]
        ctx.save_for_backward(*[v for v in values if isinstance(v, torch.Tensor)])
        ctx.tessera_numbers = [None if isinstance(v, torch.Tensor) else v for v in values]
        ctx.tessera_inputs = len(inputs)

    def backward(ctx, *gradients):
        tensors = iter(ctx.saved_tensors)
        values = [next(tensors) if number is None else number for number in ctx.tessera_numbers]
        made = backward_operator(*[gradients[i] for i in results], *values)
        made = made if isinstance(made, (tuple, list)) else (made,)
        all_gradients = [None] * ctx.tessera_inputs
        for i, gradient in zip(differentiable, made):
            all_gradients[i] = gradient
        return tuple(all_gradients)

    torch.library.register_autograd(f"{space}::{name}", backward, setup_context=setup_context)

)";
  return std::string(kBody) + "_tessera_register('" + space + "', '" + name + "', '" + backward + "', [" + saved +
         "], [" + results + "], [" + differentiable + "])\ndel _tessera_register\n";
}

/// "0, 2, " for the tensors of floating-point elements among `all`.
template <std::size_t N>
std::string floating(const std::array<Parameter, N>& all) {
  std::string text;
  for (std::size_t i = 0; i < N; ++i)
    if (all[i].is_tensor() && tessera::info(all[i].element).cls == ElementClass::Float)
      text += std::to_string(i) + ", ";
  return text;
}

}  // namespace tessera::pytorch
