// A recording's code: a list that only grows, one thread at a time per new combination.
#include "tessera/jit/kernel.hpp"

#include "jit/generate.hpp"
#include "tessera/analysis/facts.hpp"
#include "tessera/ir/verifier.hpp"

namespace tessera::jit {

/// What is known of a recording without knowing the launch.
struct Kernel::Analysis {
  LaunchContract contract;
  analysis::Facts facts;
};

Kernel::Kernel(std::unique_ptr<const ir::Module> module, const LaunchContract& contract, CompileOptions options)
    : module_(std::move(module)), options_(std::move(options)) {
  ir::verify_or_throw(*module_);
  // Checked mode runs the recording as it is, so that it can find what the claims would rely on.
  if (options_.checked) return;
  analysis_.reset(new Analysis{contract, analysis::Facts::analyze(*module_, contract)});
}

Kernel::~Kernel() {
  for (const Compiled* c = compiled_.load(std::memory_order_acquire); c;) {
    const Compiled* next = c->next;
    delete c;
    c = next;
  }
}

std::uint64_t Kernel::evaluate(std::span<const std::uint64_t> slots) const noexcept {
  return analysis_ ? analysis_->facts.evaluate(slots) : 0;
}

const Kernel::Compiled* Kernel::find(const runtime::Backend& device, std::uint64_t held) const noexcept {
  const Compiled* c = compiled_.load(std::memory_order_acquire);
  while (c && !(c->device == &device && c->held == held)) c = c->next;
  return c;
}

const Code& Kernel::find_or_compile(Device device, std::uint64_t held) {
  const Compiled* found = find(device.backend(), held);
  if (!found) {
    // Threads that need the same new code meet in generate(), where the first one compiles; here the first one's entry
    // wins, and what the others got is equal.
    auto made = std::make_unique<Compiled>();
    made->device = &device.backend();
    made->held = held;
    const passes::Target target = target_of(device);
    made->code = generate(analysis_ ? prepare(*module_, analysis_->contract, held, target) : prepare(*module_, target),
                          device, options_);
    made->next = compiled_.load(std::memory_order_acquire);
    while (!compiled_.compare_exchange_weak(made->next, made.get(), std::memory_order_acq_rel)) {}
    found = made.release();
  }
  last_.store(found, std::memory_order_release);
  return found->code;
}

}  // namespace tessera::jit
