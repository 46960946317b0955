// A Tessera kernel as a custom operator of PyTorch: torch.ops.tessera_example.silu_mul(gate, up) is silu(gate) * up,
// with its derivative, on the CPU and on GPUs. PyTorch's memory is used as it is, without a copy, and the work is
// enqueued on PyTorch's current stream: the host waits for nothing. README.md in this folder builds and tests it.
#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/autograd.h>
#include <torch/library.h>

#include <memory>
#include <mutex>
#include <tessera/tessera.hpp>
#include <tuple>

namespace {

using namespace tessera;

constexpr int kBlock = 1024;

/// sigmoid(g), computed in f32 (f64 for f64).
template <class Wide, class X>
auto sigmoid(const X& g) {
  return Wide(1) / (Wide(1) + exp(-g));
}
template <class T>
using wide_t = std::conditional_t<std::is_same_v<T, f64>, f64, f32>;

template <class T>
void silu_mul(Mut<T, kBlock> y, In<T, dyn> gate, In<T, dyn> up) {
  using Wide = wide_t<T>;
  const auto g = cast<Wide>(gate.load_like(y)), u = cast<Wide>(up.load_like(y));
  y.store(cast<T>(g * sigmoid<Wide>(g) * u));
}

template <class T>
void silu_mul_backward(Mut<T, kBlock> d_gate, Mut<T, kBlock> d_up, In<T, dyn> grad, In<T, dyn> gate, In<T, dyn> up) {
  using Wide = wide_t<T>;
  const auto d = cast<Wide>(grad.load_like(d_gate)), g = cast<Wide>(gate.load_like(d_gate)),
             u = cast<Wide>(up.load_like(d_gate));
  const auto s = sigmoid<Wide>(g);
  d_gate.store(cast<T>(d * u * s * (Wide(1) + g * (Wide(1) - s))));
  d_up.store(cast<T>(d * g * s));
}

// -- PyTorch's memory and streams --

/// The stream that PyTorch's work on this device is on now. Tessera's work goes to the same stream, so it comes behind
/// what PyTorch has enqueued, and before what it will.
Stream current_stream(const at::Device& device) {
  if (device.is_cpu()) return Stream::default_of(Device::cpu());
  const c10::Stream stream = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  return Stream::wrap(stream.native_handle(), Device::cuda(device.index()));
}

/// A tensor over the memory of one of PyTorch's, which is kept until the work on it has ended.
template <class T>
Tensor<T, 1> borrowed(const at::Tensor& tensor, const Stream& stream) {
  return borrow<T, 1>(static_cast<T*>(tensor.data_ptr()), {tensor.numel()}, {1}, std::make_shared<at::Tensor>(tensor),
                      stream);
}

/// One thread at a time borrows: autograd runs in threads of its own, perhaps with the same tensors.
std::mutex& borrowing() {
  static std::mutex mutex;
  return mutex;
}

/// Calls f with a value of Tessera's type for the tensor's.
template <class F>
void with_element(const at::Tensor& tensor, F&& f) {
  switch (tensor.scalar_type()) {
    case at::kFloat: return f(f32());
    case at::kDouble: return f(f64());
    case at::kHalf: return f(f16());
    case at::kBFloat16: return f(bf16());
    default: TORCH_CHECK(false, "silu_mul takes float32, float64, float16 and bfloat16, found ", tensor.scalar_type());
  }
}

void check_pair(const char* what, const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() && a.device() == b.device(),
              "silu_mul: ", what, " must have gate's shape, element type and device, found ", b.sizes(), " of ",
              b.scalar_type(), " on ", b.device(), " and gate of ", a.sizes(), " of ", a.scalar_type(), " on ",
              a.device());
}
/// `b` without gaps, and in memory of its own: two tensors over the same memory could not protect each other.
at::Tensor apart(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor dense = b.contiguous();
  const auto begin = [](const at::Tensor& t) { return static_cast<const char*>(t.const_data_ptr()); };
  const auto end = [&](const at::Tensor& t) { return begin(t) + t.nbytes(); };
  return begin(dense) < end(a) && begin(a) < end(dense) ? dense.clone() : dense;
}

// -- the operators --

at::Tensor run_forward(const at::Tensor& gate, const at::Tensor& up) {
  check_pair("up", gate, up);
  const at::Tensor g = gate.contiguous(), u = apart(g, up);
  at::Tensor result = at::empty_like(g);
  if (result.numel() == 0) return result;
  with_element(g, [&]<class T>(T) {
    const Stream stream = current_stream(g.device());
    const std::lock_guard lock(borrowing());
    auto y = borrowed<T>(result, stream);
    kernel<silu_mul<T>>(mut(y), borrowed<T>(g, stream), borrowed<T>(u, stream)).on(stream);
  });
  return result;
}

std::tuple<at::Tensor, at::Tensor> run_backward(const at::Tensor& grad, const at::Tensor& gate, const at::Tensor& up) {
  check_pair("up", gate, up);
  check_pair("the gradient", gate, grad);
  const at::Tensor g = gate.contiguous(), u = apart(g, up);
  at::Tensor d = apart(g, grad);
  if (const at::Tensor other = apart(u, d); !other.is_same(d)) d = other;
  at::Tensor d_gate = at::empty_like(g), d_up = at::empty_like(g);
  if (g.numel() == 0) return {d_gate, d_up};
  with_element(g, [&]<class T>(T) {
    const Stream stream = current_stream(g.device());
    const std::lock_guard lock(borrowing());
    auto to_gate = borrowed<T>(d_gate, stream), to_up = borrowed<T>(d_up, stream);
    kernel<silu_mul_backward<T>>(mut(to_gate), mut(to_up), borrowed<T>(d, stream), borrowed<T>(g, stream),
                                 borrowed<T>(u, stream))
        .on(stream);
  });
  return {d_gate, d_up};
}

/// For fake tensors (torch.compile): the results without elements.
at::Tensor forward_meta(const at::Tensor& gate, const at::Tensor& up) {
  TORCH_CHECK(gate.sym_sizes() == up.sym_sizes(), "silu_mul: up must have gate's shape");
  return at::empty_like(gate, at::MemoryFormat::Contiguous);
}
std::tuple<at::Tensor, at::Tensor> backward_meta(const at::Tensor&, const at::Tensor& gate, const at::Tensor&) {
  return {at::empty_like(gate, at::MemoryFormat::Contiguous), at::empty_like(gate, at::MemoryFormat::Contiguous)};
}

/// The operators by name, so that PyTorch sees the calls.
at::Tensor call_forward(const at::Tensor& gate, const at::Tensor& up) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("tessera_example::silu_mul", "")
                             .typed<at::Tensor(const at::Tensor&, const at::Tensor&)>();
  return op.call(gate, up);
}
std::tuple<at::Tensor, at::Tensor> call_backward(const at::Tensor& grad, const at::Tensor& gate, const at::Tensor& up) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("tessera_example::silu_mul_backward", "")
          .typed<std::tuple<at::Tensor, at::Tensor>(const at::Tensor&, const at::Tensor&, const at::Tensor&)>();
  return op.call(grad, gate, up);
}

class SiluMul : public torch::autograd::Function<SiluMul> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& gate, const at::Tensor& up) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({gate, up});
    return call_forward(gate, up);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    auto [d_gate, d_up] = call_backward(gradients[0].contiguous(), saved[0], saved[1]);
    return {d_gate, d_up};
  }
};
at::Tensor with_autograd(const at::Tensor& gate, const at::Tensor& up) { return SiluMul::apply(gate, up); }

}  // namespace

TORCH_LIBRARY(tessera_example, library) {
  library.def("silu_mul(Tensor gate, Tensor up) -> Tensor");
  library.def("silu_mul_backward(Tensor grad, Tensor gate, Tensor up) -> (Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(tessera_example, CPU, library) {
  library.impl("silu_mul", run_forward);
  library.impl("silu_mul_backward", run_backward);
}
TORCH_LIBRARY_IMPL(tessera_example, CUDA, library) {
  library.impl("silu_mul", run_forward);
  library.impl("silu_mul_backward", run_backward);
}
TORCH_LIBRARY_IMPL(tessera_example, Meta, library) {
  library.impl("silu_mul", forward_meta);
  library.impl("silu_mul_backward", backward_meta);
}
TORCH_LIBRARY_IMPL(tessera_example, Autograd, library) { library.impl("silu_mul", with_autograd); }
