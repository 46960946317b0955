// Leases: many readers or one writer, moves, and messages that name both operations.
#include "tessera/runtime/access.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/runtime/storage.hpp"

namespace tessera::runtime {
namespace THIS_FILE {

StorageRef make(const char* label = "") { return Storage::allocate(Device::cpu(), 16, {.label = label}); }

Holder argument(int number, const char* type, const void* operation, std::uint32_t line) {
  return {"kernel saxpy", number, type, {"saxpy.cpp", "main", line, 0}, operation};
}

template <class F>
std::string rejection(F f) {
  try {
    f();
  } catch (const BorrowError& error) { return error.what(); }
  return "not rejected";
}

TEST(Lease, ManyReadersOrOneWriter) {
  StorageRef x = make();
  const Holder host{.what = "host"};
  {
    ReadLease a(x, host), b(x, host);
    EXPECT_THROW(WriteLease(x, host), BorrowError);
    a.release();
    EXPECT_THROW(WriteLease(x, host), BorrowError);
    b.release();
    EXPECT_NO_THROW(WriteLease(x, host));
  }
  WriteLease writer(x, host);
  EXPECT_THROW(ReadLease(x, host), BorrowError);
  EXPECT_THROW(WriteLease(x, host), BorrowError);
  writer.release();
  EXPECT_NO_THROW(ReadLease(x, host));
}

TEST(Lease, MovesKeepTheClaimAndItsPlaceInTheList) {
  StorageRef x = make();
  const Holder host{.what = "host"};
  std::vector<Lease> leases;
  for (int i = 0; i < 20; ++i) leases.emplace_back(ReadLease(x, host));  // grows: every lease moves
  EXPECT_THROW(WriteLease(x, host), BorrowError);
  leases.erase(leases.begin() + 5, leases.begin() + 15);
  EXPECT_THROW(WriteLease(x, host), BorrowError);
  ReadLease taken;
  taken = ReadLease(x, host);
  leases.clear();
  EXPECT_TRUE(taken);
  EXPECT_THROW(WriteLease(x, host), BorrowError);
  ReadLease moved = std::move(taken);
  EXPECT_FALSE(taken);  // NOLINT(bugprone-use-after-move): what it is left as
  taken.release();
  EXPECT_THROW(WriteLease(x, host), BorrowError);
  moved = ReadLease();
  EXPECT_NO_THROW(WriteLease(x, host));
}

TEST(Lease, AWriterThatMovesStillExcludesReaders) {
  StorageRef x = make();
  const Holder host{.what = "host"};
  WriteLease made(x, host);
  Lease constructed(std::move(made));
  EXPECT_THROW(ReadLease(x, host), BorrowError);
  Lease assigned;
  assigned = std::move(constructed);
  EXPECT_THROW(ReadLease(x, host), BorrowError);
  assigned.release();
  EXPECT_NO_THROW(ReadLease(x, host));
}

TEST(Lease, AReaderThatEndsBetweenOthersLeavesThem) {
  StorageRef x = make();
  const Holder host{.what = "host"};
  ReadLease a(x, host), b(x, host), c(x, host);
  b.release();
  c.release();
  EXPECT_THROW(WriteLease(x, host), BorrowError) << "the first still reads";
  a.release();
  EXPECT_NO_THROW(WriteLease(x, host));
}

TEST(Lease, KeepsTheStorageAlive) {
  StorageRef x = make();
  const std::weak_ptr<Storage> watched = x;
  ReadLease lease(std::move(x), {.what = "host"});
  EXPECT_FALSE(watched.expired());
  lease.release();
  EXPECT_TRUE(watched.expired());
}

TEST(Lease, NamesBothArgumentsOfOneOperation) {
  StorageRef y = make();
  int operation = 0;
  WriteLease out(y, argument(1, "Mut<f32, 128>", &operation, 14));
  const std::string text = rejection([&] { ReadLease(y, argument(3, "In<f32, dyn>", &operation, 14)); });
  EXPECT_EQ(text,
            "saxpy.cpp:14: BorrowError: argument 3 (In<f32, dyn>) and argument 1 (Mut<f32, 128>) of kernel saxpy are "
            "the same "
            "storage; argument 1 is written, so argument 3 may not share it.\n"
            "  Make a copy (x = clone(y)), or write in place with y.load().");
  const std::string both = rejection([&] { WriteLease(y, argument(2, "Mut<f32, 128>", &operation, 14)); });
  EXPECT_NE(
      both.find("argument 2 (Mut<f32, 128>) and argument 1 (Mut<f32, 128>) of kernel saxpy are the same storage; both "
                "are written"),
      std::string::npos)
      << both;
  out.release();
  ReadLease in(y, argument(1, "In<f32, dyn>", &operation, 14));
  const std::string later = rejection([&] { WriteLease(y, argument(2, "Mut<f32, 128>", &operation, 14)); });
  EXPECT_NE(later.find("argument 2 is written, so argument 1 may not share it"), std::string::npos) << later;
}

TEST(Lease, NamesTheOtherOperationAndItsLine) {
  StorageRef y = make("y");
  int first = 0, second = 0;
  WriteLease out(y, argument(1, "Mut<f32, 128>", &first, 14));
  EXPECT_EQ(rejection([&] { ReadLease(y, argument(3, "In<f32, dyn>", &second, 20)); }),
            "saxpy.cpp:20: BorrowError: argument 3 (In<f32, dyn>) of kernel saxpy cannot read tensor 'y': it is being "
            "written "
            "by argument 1 (Mut<f32, 128>) of kernel saxpy (saxpy.cpp:14).\n"
            "  Run that operation first (.sync() or .on(stream)) or drop it, or use a copy (clone).");
  out.release();
  ReadLease a(y, {.what = "save_npy"}), b(y, {.what = "host"}), c(y, {.what = "print"});
  const std::string text = rejection([&] { WriteLease(y, argument(1, "Mut<f32, 128>", &second, 20)); });
  EXPECT_NE(text.find("cannot write tensor 'y': it is being read by print and 2 other readers."), std::string::npos)
      << text;
}

TEST(Lease, OfNothingSaysWhy) {
  const std::string text = rejection([] { ReadLease(nullptr, argument(2, "In<f32, dyn>", nullptr, 7)); });
  EXPECT_NE(text.find("saxpy.cpp:7: BorrowError: argument 2 (In<f32, dyn>) of kernel saxpy is an empty tensor"),
            std::string::npos)
      << text;
}

TEST(Lease, ExcludesAcrossThreads) {
  StorageRef x = make();
  std::atomic<int> writers{0}, readers{0}, taken{0};
  std::atomic<bool> wrong{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        try {
          if ((i + t) % 2 == 0) {
            WriteLease lease(x, {.what = "host"});
            if (++writers != 1 || readers != 0) wrong = true;
            --writers;
          } else {
            ReadLease lease(x, {.what = "host"});
            ++readers;
            if (writers != 0) wrong = true;
            --readers;
          }
          ++taken;
        } catch (const BorrowError&) { std::this_thread::yield(); }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(wrong);
  EXPECT_GT(taken, 0);
}

}  // namespace THIS_FILE
}  // namespace tessera::runtime
