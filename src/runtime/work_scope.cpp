// The thread-local flag of WorkScope.
#include "runtime/work_scope.hpp"
#include "tessera/runtime/stream_core.hpp"

namespace tessera::runtime {

namespace {
thread_local bool running_work = false;
}

bool inside_work() noexcept { return running_work; }

WorkScope::WorkScope() noexcept : outer_(running_work) { running_work = true; }
WorkScope::~WorkScope() { running_work = outer_; }

void run_work(const Launchable& work, const LaunchContext& context, std::uint64_t number,
              QueueObserver& observer) noexcept {
  if (!observer.may_run(number, context.accesses)) return work.skipped();
  try {
    WorkScope scope;
    work.launch(context);
  } catch (...) { return observer.finished(number, context.accesses, true); }
  observer.finished(number, context.accesses, false);
}

}  // namespace tessera::runtime
