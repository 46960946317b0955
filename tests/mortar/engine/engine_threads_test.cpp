// Threads that submit, cancel and look while another one serves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <random>
#include <thread>

#include "base/rounds.hpp"
#include "mortar/engine.hpp"
#include "mortar/engine/test_engine.hpp"
#include "mortar/errors.hpp"
#include "tessera/runtime/memory.hpp"

namespace mortar::test {
namespace THIS_FILE {

using testing::HasSubstr;

TEST(EngineThreads, AnswersAreAsAlone) {
  constexpr std::size_t kThreads = 4;
  const std::size_t each = tessera::test::rounds(12);
  Engine engine(load_test_model("dense-tied"),
                {.max_batch = 6, .kv_tokens = 10 * 64, .batch_invariant = true, .max_queue = 8});
  std::vector<std::vector<TokenId>> expected;
  for (std::uint32_t i = 0; i < 6; ++i) expected.push_back(answer(engine, some_request(5 + 13 * i, 10 + i, i)).ids);
  std::atomic<int> complete = 0, cancelled = 0, rejected = 0, open = 0;
  std::atomic<bool> wrong = false;
  const auto client = [&](std::size_t number) {
    std::mt19937 random(static_cast<std::uint32_t>(number));
    for (std::size_t i = 0; i < each; ++i) {
      const std::uint32_t which = random() % 6;
      Request r = some_request(5 + 13 * which, 10 + which, which);
      r.key = std::to_string(number);
      r.report_cancelled = true;
      auto heard = std::make_shared<std::vector<TokenId>>();
      ++open;
      const auto listener = [&, heard, which](const Token& token) {
        if (token.id >= 0) heard->push_back(token.id);
        if (!token.finish) return;
        const auto& all = expected[which];
        if (heard->size() > all.size() || !std::equal(heard->begin(), heard->end(), all.begin())) wrong = true;
        if (*token.finish == FinishReason::Length && *heard != all) wrong = true;
        ++(*token.finish == FinishReason::Length ? complete : cancelled);
        --open;
      };
      try {
        const SequenceId id = engine.submit(r, listener);
        if (random() % 3 == 0) {
          std::this_thread::sleep_for(std::chrono::milliseconds(random() % 20));
          if (random() % 2 == 0)
            engine.cancel(id, "gone");
          else
            engine.cancel_choice(id, 0, "gone");
        }
      } catch (const QueueFullError&) {
        ++rejected;
        --open;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      const EngineStats stats = engine.stats();
      if (stats.held_pages > stats.total_pages || stats.running > 6) wrong = true;
    }
  };
  std::stop_source stop;
  std::jthread server([&] { engine.serve(stop.get_token()); });
  {
    std::vector<std::jthread> clients;
    for (std::size_t i = 0; i < kThreads; ++i) clients.emplace_back(client, i);
  }
  while (open > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  stop.request_stop();
  server.join();
  EXPECT_FALSE(wrong);
  EXPECT_EQ(static_cast<std::size_t>(complete + cancelled + rejected), kThreads * each);
  EXPECT_GT(complete, 0);
  EXPECT_EQ(engine.stats().cancelled, cancelled);
  EXPECT_EQ(engine.free_pages(), engine.total_pages());
  EXPECT_EQ(engine.waiting(), 0);
}

TEST(EngineThreads, ServingGoesOnAfterFailures) {
  Engine engine(load_test_model("dense-tied"), {.max_batch = 2});
  (void)answer(engine, some_request(3, 2));  // what is captured once
  std::mutex mutex;
  Heard penalised, thrower, good;
  const auto locked = [&](Heard& heard) {
    return [&](const Token& token) {
      const std::lock_guard lock(mutex);
      heard.listener()(token);
    };
  };
  const auto finished = [&](const Heard& heard) {
    for (int i = 0; i < 20000; ++i, std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
      const std::lock_guard lock(mutex);
      if (heard.finish) return true;
    }
    return false;
  };
  std::stop_source stop;
  std::jthread server([&] { engine.serve(stop.get_token()); });
  const tessera::Device cpu = tessera::Device::cpu();
  tessera::trim_memory(cpu);
  tessera::set_memory_limit(cpu, tessera::memory_stats(cpu).in_use);  // no state for penalties can be made
  Request r = some_request(3, 5);
  r.sampling.frequency_penalty = 1;
  engine.submit(r, locked(penalised));
  EXPECT_TRUE(finished(penalised));
  tessera::set_memory_limit(cpu, tessera::kNoMemoryLimit);
  EXPECT_EQ(penalised.finish, FinishReason::Failed);
  Request told = some_request(3, 50);
  told.report_cancelled = true;
  int calls = 0;
  engine.submit(told, [&](const Token& token) {
    locked(thrower)(token);
    if (++calls == 2) throw std::runtime_error("a listener's");
  });
  engine.submit(some_request(3, 5), locked(good));
  EXPECT_TRUE(finished(thrower) && finished(good));
  stop.request_stop();
  server.join();
  EXPECT_EQ(thrower.finish, FinishReason::Cancelled);
  EXPECT_THAT(thrower.tokens.back().error, HasSubstr("its function has thrown"));
  EXPECT_EQ(good.finish, FinishReason::Length);
  EXPECT_EQ(engine.free_pages(), engine.total_pages());
}

TEST(EngineThreads, AFunctionMustNotStep) {
  Engine engine(load_test_model("dense-tied"), {});
  std::string message;
  engine.submit(some_request(3, 1), [&](const Token&) {
    try {
      engine.step();
    } catch (const RequestError& error) { message = error.what(); }
  });
  engine.run();
  EXPECT_THAT(message, HasSubstr("must not step"));
}

}  // namespace THIS_FILE
}  // namespace mortar::test
