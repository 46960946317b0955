// Taking and releasing leases, and the messages that name both sides of a conflict.
#include "tessera/runtime/access.hpp"

#include <mutex>
#include <string>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/runtime/storage.hpp"

namespace tessera::runtime {

namespace {

std::string argument(const Holder& holder) {
  std::string text = concat("argument ", holder.argument);
  if (holder.type[0] != '\0') text += concat(" (", holder.type, ")");
  return text;
}

std::string subject(const Holder& holder) {
  return holder.argument == 0 ? std::string(holder.what) : concat(argument(holder), " of ", holder.what);
}

std::string place(const Holder& holder) {
  return holder.where.known() ? concat(" (", holder.where.file, ":", holder.where.line, ")") : std::string();
}

bool same_operation(const Holder& a, const Holder& b) { return a.operation != nullptr && a.operation == b.operation; }

/// Two arguments of one operation share a storage and at least one of them is written.
std::string alias_text(const Holder& wants, bool wants_write, const Holder& has, bool has_write) {
  std::string text = concat(argument(wants), " and ", argument(has), " of ", wants.what, " are the same storage; ");
  if (wants_write && has_write)
    return text + "both are written, so they may not share it.\n  Make a copy of one of them (clone).";
  const Holder& writer = wants_write ? wants : has;
  const Holder& reader = wants_write ? has : wants;
  text += concat("argument ", writer.argument, " is written, so argument ", reader.argument, " may not share it.\n");
  return text + "  Make a copy (x = clone(y)), or write in place with y.load().";
}

std::string conflict_text(const std::string& tensor, const Holder& wants, bool wants_write, const Holder& has,
                          bool has_write, int others) {
  std::string text = concat(subject(wants), " cannot ", wants_write ? "write " : "read ", tensor, ": it is being ",
                            has_write ? "written" : "read", " by ", subject(has), place(has));
  if (others > 0) text += concat(" and ", others, others == 1 ? " other reader" : " other readers");
  return text + ".\n  Run that operation first (.sync() or .on(stream)) or drop it, or use a copy (clone).";
}

}  // namespace

/// Under the mutex.
bool LeaseLink::try_take(Storage& storage, bool exclusive, const Holder& holder) noexcept {
  const LeaseLink* first = storage.leases_;
  if (first != nullptr && (exclusive || first->exclusive_)) return false;
  holder_ = holder;
  exclusive_ = exclusive;
  link(storage);
  return true;
}

void LeaseLink::take(Storage& storage, bool exclusive, const Holder& holder) {
  {
    std::lock_guard lock(storage.mutex_);
    if (try_take(storage, exclusive, holder)) [[likely]]
      return;
  }
  // A tensor that another library has returned stays leased until that library's work has ended: wait for it.
  storage.device().backend().end_handed_back();
  std::string text;
  {
    std::lock_guard lock(storage.mutex_);
    if (try_take(storage, exclusive, holder)) return;
    const LeaseLink* first = storage.leases_;
    int count = 0;
    for (const LeaseLink* lease = first; lease != nullptr; lease = lease->next_) {
      ++count;
      if (same_operation(holder, lease->holder_)) first = lease;
    }
    text = same_operation(holder, first->holder_)
               ? alias_text(holder, exclusive, first->holder_, first->exclusive_)
               : conflict_text(storage.label_.empty() ? "this tensor" : concat("tensor '", storage.label_, "'"), holder,
                               exclusive, first->holder_, first->exclusive_, count - 1);
  }
  throw BorrowError(text, holder.where);
}

void LeaseLink::release_held() noexcept {
  std::lock_guard lock(storage_->mutex_);
  unlink();
}

void LeaseLink::take_over(LeaseLink& other) noexcept {
  holder_ = other.holder_;
  exclusive_ = other.exclusive_;
  if (other.storage_ == nullptr) return;
  Storage& storage = *other.storage_;
  std::lock_guard lock(storage.mutex_);
  other.unlink();
  link(storage);
}

void LeaseLink::link(Storage& storage) noexcept {
  storage_ = &storage;
  next_ = storage.leases_;
  if (next_ != nullptr) next_->previous_ = this;
  storage.leases_ = this;
}

void LeaseLink::unlink() noexcept {
  if (previous_ == nullptr) storage_->leases_ = next_;
  if (previous_ != nullptr) previous_->next_ = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
  previous_ = next_ = nullptr;
  storage_ = nullptr;
}

Lease::Lease(StorageRef storage, bool exclusive, const Holder& holder) {
  if (!storage) {
    throw BorrowError(concat(subject(holder),
                             " is an empty tensor: it was moved from, or never given a value.\n"
                             "  Assign a tensor to it first (a kernel returns what it was given: y = "
                             "kernel<...>(std::move(y), ...).sync())."),
                      holder.where);
  }
  link_.take(*storage, exclusive, holder);
  storage_ = std::move(storage);
}

Lease::Lease(Lease&& other) noexcept : storage_(std::move(other.storage_)) { link_.take_over(other.link_); }

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  release();
  link_.take_over(other.link_);
  storage_ = std::move(other.storage_);
  return *this;
}

void Lease::release() noexcept {
  link_.release();
  storage_.reset();  // outside the storage's mutex: this may be the last reference
}

}  // namespace tessera::runtime
