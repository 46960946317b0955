// The exchange between threads, and what an abort in the middle of it must not do.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "mesh/exchange.hpp"
#include "tessera/base/error.hpp"

namespace tessera::mesh {
namespace THIS_FILE {

using Buffer = std::vector<std::byte>;

/// Member 0 gives member 1 a large message and gets a small one, so that it has copied its own long before.
struct Round {
  Buffer given = Buffer(std::size_t{16} << 20), got = Buffer(given.size(), std::byte{1}), small{std::byte{2}},
         answer{std::byte{3}};
  bool ended[2] = {false, false};  ///< without an error

  void run(std::vector<std::shared_ptr<Exchange>>& members, std::chrono::microseconds until_abort) {
    std::atomic<int> ready{0};
    const auto member = [&](std::size_t me, std::span<const std::byte> to, std::span<std::byte> from) {
      ++ready;
      const std::span<const std::byte> gives[] = {
          me == 0 ? std::span<const std::byte>() : std::span<const std::byte>(to),
          me == 0 ? to : std::span<const std::byte>()};
      const std::span<std::byte> takes[] = {me == 0 ? std::span<std::byte>() : from,
                                            me == 0 ? from : std::span<std::byte>()};
      try {
        members[me]->all_to_all(gives, takes);
        ended[me] = true;
      } catch (const Error&) {}
      if (me == 0) std::memset(given.data(), 0xFF, given.size());  // the memory is its own again
    };
    std::thread first([&] { member(0, given, answer); });
    std::thread second([&] { member(1, small, got); });
    while (ready < 2) std::this_thread::yield();
    std::this_thread::sleep_for(until_abort);
    members[0]->abort({0, "the test ends it"});
    first.join();
    second.join();
  }
};

TEST(ThreadExchange, AnAbortDoesNotLetAMemberLeaveWhileItsMemoryIsRead) {
  const Buffer zeros(std::size_t{16} << 20);
  int met = 0;
  for (int i = 0; i < 24 || (met == 0 && i < 2000); ++i) {  // on a busy machine all the aborts may come too early
    auto members = thread_exchanges(2, 20'000);
    Round round;
    round.run(members, std::chrono::microseconds(150 * i));
    EXPECT_EQ(round.ended[0], round.ended[1]) << "all have met, or none has";
    if (!round.ended[1]) continue;
    ++met;
    EXPECT_EQ(std::memcmp(round.got.data(), zeros.data(), zeros.size()), 0) << "round " << i;
    EXPECT_EQ(round.answer, round.small);
  }
  EXPECT_GT(met, 0);
}

TEST(ThreadExchange, ADifferenceOfSizesEndsBothMembers) {
  auto members = thread_exchanges(2, 20'000);
  std::vector<std::thread> threads;
  std::atomic<int> failed{0};
  for (std::size_t me : {std::size_t{0}, std::size_t{1}})
    threads.emplace_back([&, me] {
      const Buffer to(16);
      Buffer from(me == 0 ? 8 : 16);
      const std::span<const std::byte> gives[] = {
          me == 0 ? std::span<const std::byte>() : std::span<const std::byte>(to),
          me == 0 ? std::span<const std::byte>(to) : std::span<const std::byte>()};
      const std::span<std::byte> takes[] = {me == 0 ? std::span<std::byte>() : std::span<std::byte>(from),
                                            me == 0 ? std::span<std::byte>(from) : std::span<std::byte>()};
      try {
        members[me]->all_to_all(gives, takes);
      } catch (const InternalError&) { ++failed; }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(failed, 1) << "the one whose sizes differ";
}

}  // namespace THIS_FILE
}  // namespace tessera::mesh
