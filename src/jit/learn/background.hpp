// One thread of the process that does what no launch waits for.
#pragma once
#include <functional>

namespace tessera::jit {

/// Enqueues a job. Jobs run one after the other, and none begins once the process is ending. What a job throws is
/// dropped: it must leave things as they were. Does nothing in a child of fork().
void in_background(std::function<void()> job);
/// Blocks until there is no job. Not from a job.
void wait_for_background();

}  // namespace tessera::jit
