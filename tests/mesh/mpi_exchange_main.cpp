// The exchange over MPI, with as many processes as mpirun has started: mpi_exchange_main data | missing | abort | own.
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "mesh/mpi_exchange.hpp"
#include "tessera/base/error.hpp"

namespace {

using tessera::mesh::Exchange;
using tessera::mesh::mpi_exchange;
using Bytes = std::vector<std::byte>;

int failures = 0;

void expect(bool condition, const std::string& what) {
  if (condition) return;
  std::fprintf(stderr, "not so: %s\n", what.c_str());
  ++failures;
}

/// What member `from` gives to member `to` in round `round`: its length depends on all three.
Bytes piece(int from, int to, int round, std::size_t most) {
  std::size_t seed = static_cast<std::size_t>(from) * 7919U + static_cast<std::size_t>(to) * 104729U +
                     static_cast<std::size_t>(round) * 1299709U;
  Bytes bytes(round == 0 ? 0 : seed % most);
  for (std::byte& byte : bytes)
    byte = static_cast<std::byte>((seed = seed * 6364136223846793005U + 1442695040888963407U) >> 56);
  return bytes;
}

void check_all_to_all(Exchange& exchange, int round, std::size_t most) {
  std::vector<Bytes> out, in;
  std::vector<std::span<const std::byte>> to;
  std::vector<std::span<std::byte>> from;
  const int n = exchange.members(), me = exchange.me();
  for (int i = 0; i < n; ++i) {
    out.push_back(piece(me, i, round, most));
    in.emplace_back(piece(i, me, round, most).size());
  }
  for (int i = 0; i < n; ++i) {
    to.emplace_back(out[static_cast<std::size_t>(i)]);
    from.emplace_back(in[static_cast<std::size_t>(i)]);
  }
  exchange.all_to_all(to, from);
  for (int i = 0; i < n; ++i)
    expect(in[static_cast<std::size_t>(i)] == piece(i, me, round, most), "all_to_all, round " + std::to_string(round));
}

void check_ring(Exchange& exchange, std::size_t bytes) {
  const int n = exchange.members(), me = exchange.me();
  if (n < 2) return;
  const int next = (me + 1) % n, previous = (me + n - 1) % n;
  Bytes in(bytes);
  const Bytes out(bytes, static_cast<std::byte>(me + 1));
  if (me % 2 == 0) {
    exchange.send(next, out);
    exchange.receive(previous, in);
  } else {
    exchange.receive(previous, in);
    exchange.send(next, out);
  }
  expect(in == Bytes(bytes, static_cast<std::byte>(previous + 1)), "ring");
}

void data() {
  // Small messages, so that a large piece is several of them.
  const auto exchange = mpi_exchange({.timeout_ms = 20'000, .message_bytes = 4096});
  for (int round = 0; round < 20; ++round) check_all_to_all(*exchange, round, round % 2 == 0 ? 300'000 : 100);
  check_ring(*exchange, 1);
  check_ring(*exchange, 2'000'000);
  const auto half = exchange->split(exchange->me() % 2);
  expect(half->members() == (exchange->members() + 1 - exchange->me() % 2) / 2, "members of a half");
  expect(half->me() == exchange->me() / 2, "the number in a half");
  for (int round = 0; round < 5; ++round) check_all_to_all(*half, round, 5000);
  check_all_to_all(*exchange, 1, 5000);
  const auto second = mpi_exchange({.timeout_ms = 20'000});
  check_all_to_all(*second, 2, 3'000'000);
}

std::string error_of(Exchange& exchange) {
  try {
    check_all_to_all(exchange, 1, 100);
    return "ok";
  } catch (const tessera::MeshError& error) { return error.what(); }
}
void expect_error(Exchange& exchange, const std::string& part) {
  const std::string error = error_of(exchange);
  expect(error.find(part) != std::string::npos, part + " in: " + error);
  expect(error_of(exchange) == error, "the first error again: " + error);
}

/// The last member comes when all others have given up: they name it, and it learns of that.
void missing() {
  const auto exchange = mpi_exchange({.timeout_ms = 2'000});  // of who comes, none is so late on a busy machine
  const int last = exchange->members() - 1;
  check_all_to_all(*exchange, 1, 100);
  const std::string expected =
      "process " + std::to_string(last) + " of " + std::to_string(last + 1) + " did not arrive within 2 s";
  if (exchange->me() != last) expect_error(*exchange, expected);
  MPI_Barrier(MPI_COMM_WORLD);
  if (exchange->me() != last) return;
  error_of(*exchange);  // what the others sent has arrived: this call may be complete
  expect_error(*exchange, expected);
}

/// Member 0 aborts while the others wait for it without a limit.
void aborted() {
  const auto exchange = mpi_exchange({.timeout_ms = 0});
  check_all_to_all(*exchange, 1, 100);
  if (exchange->me() == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::thread([&] { exchange->abort({7, "out of memory"}); }).join();
  }
  expect_error(*exchange, "rank 7: out of memory");  // or it waits until the test's limit ends it
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  // A program that has initialised MPI also finalises it, after failures too.
  const bool own = mode != "data";
  int level = 0;
  if (own) MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
  if (mode == "data" || mode == "own") data();
  if (mode == "missing") missing();
  if (mode == "abort") aborted();
  int rank = 0, total = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Allreduce(&failures, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) std::printf("%s: %d failures\n", mode.c_str(), total);
  std::fflush(stdout);
  if (own) MPI_Finalize();
  return total == 0 ? 0 : 1;
}
