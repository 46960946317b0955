// The collectives of one member: what it gives to the others, and what it makes of what it gets.
#include "mesh/host_collectives.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "mesh/add_elements.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::mesh {

namespace {

using Bytes = std::span<const std::byte>;
using Room = std::span<std::byte>;
using Buffer = std::vector<std::byte>;

/// What each member sends first, as bytes.
struct Header {
  std::uint64_t number;
  std::int64_t count;
  std::int32_t kind, element, peer, line;
  std::array<char, 96> file;
};

Header header_of(const CollectiveHead& head) {
  Header h{};
  h.number = head.number;
  h.count = head.count;
  h.kind = static_cast<std::int32_t>(head.kind);
  h.element = static_cast<std::int32_t>(head.element);
  h.peer = head.peer;
  h.line = static_cast<std::int32_t>(head.where.line);
  if (head.where.known()) {
    const std::string_view file = head.where.file;  // the end of a long path says more than its beginning
    const std::size_t size = std::min(file.size(), h.file.size() - 1);
    std::memcpy(h.file.data(), file.data() + file.size() - size, size);
  }
  return h;
}

std::string text_of(const Header& h) {
  std::string text = text_of(static_cast<Collective>(h.kind));
  if (static_cast<Collective>(h.kind) != Collective::Barrier)
    text += concat(" of ", h.count, " elements of ", info(static_cast<ElementType>(h.element)).name);
  if (static_cast<Collective>(h.kind) == Collective::Broadcast) text += concat(" from rank ", h.peer);
  if (h.file[0] != '\0') text += concat(" at ", h.file.data(), ":", h.line);
  return text;
}

bool agree(const Header& a, const Header& b) {
  return a.number == b.number && a.count == b.count && a.kind == b.kind && a.element == b.element && a.peer == b.peer;
}

/// One collective of one member.
class Run {
 public:
  Run(Exchange& exchange, int ranks_each, const CollectiveHead& head, std::span<const std::byte* const> in,
      std::span<std::byte* const> out)
      : exchange_(exchange),
        head_(head),
        in_(in),
        out_(out),
        each_(static_cast<std::size_t>(ranks_each)),
        members_(static_cast<std::size_t>(exchange.members())),
        me_(static_cast<std::size_t>(exchange.me())),
        size_(static_cast<std::size_t>(size_of(head.element))),
        count_(static_cast<std::size_t>(head.count)) {}

  void run() {
    if (head_.kind == Collective::Send || head_.kind == Collective::Receive) return pass();
    check_agreement();
    if (head_.count == 0) return;
    switch (head_.kind) {
      case Collective::AllReduce: return all_reduce();
      case Collective::AllGather: return all_gather();
      case Collective::ReduceScatter: return reduce_scatter();
      case Collective::Broadcast: return broadcast();
      default: return;  // a barrier is the exchange of the headers
    }
  }

 private:
  std::size_t bytes() const { return count_ * size_; }
  std::size_t ranks() const { return members_ * each_; }

  void check_agreement() {
    const Header mine = header_of(head_);
    std::vector<Header> all(members_);
    std::vector<Bytes> to(members_, std::as_bytes(std::span(&mine, 1)));
    std::vector<Room> from;
    for (Header& h : all) from.push_back(std::as_writable_bytes(std::span(&h, 1)));
    exchange_.all_to_all(to, from);
    for (std::size_t i = 1; i < members_; ++i) {
      if (agree(all[0], all[i])) continue;
      const auto rank = static_cast<int>(i * each_);
      const GroupFailure failure{rank, concat("called ", text_of(all[i]), ", where rank 0 called ", text_of(all[0]))};
      exchange_.abort(failure);
      throw_group_failure(failure, head_.label, head_.where);
    }
  }

  /// The elements [lo, hi) of every local rank's input, one after the other.
  Buffer packed(std::size_t lo, std::size_t hi) const {
    Buffer buffer(each_ * (hi - lo) * size_);
    for (std::size_t r = 0; r < each_; ++r)
      std::copy_n(in_[r] + lo * size_, (hi - lo) * size_,
                  buffer.begin() + static_cast<std::ptrdiff_t>(r * (hi - lo) * size_));
    return buffer;
  }

  /// Gives each member the elements [bounds[i], bounds[i + 1]) of the local ranks; the sums over all ranks of this
  /// member's own elements.
  Buffer summed(std::span<const std::size_t> bounds) {
    std::vector<Buffer> given(members_), got(members_);
    std::vector<Bytes> to;
    std::vector<Room> from;
    const std::size_t own = bounds[me_ + 1] - bounds[me_];
    for (std::size_t i = 0; i < members_; ++i) {
      given[i] = packed(bounds[i], bounds[i + 1]);
      got[i].resize(each_ * own * size_);
      to.emplace_back(given[i]);
      from.emplace_back(got[i]);
    }
    exchange_.all_to_all(to, from);
    std::vector<const std::byte*> parts;
    for (const Buffer& g : got)
      for (std::size_t r = 0; r < each_; ++r) parts.push_back(g.data() + r * own * size_);
    Buffer sums(own * size_);
    add_elements(head_.element, parts, static_cast<std::int64_t>(own), sums.data());
    return sums;
  }

  void copy_to_other_ranks(std::size_t total) {
    for (std::size_t r = 1; r < each_; ++r) std::memcpy(out_[r], out_[0], total);
  }

  void all_reduce() {
    std::vector<std::size_t> bounds;  // of the members' ranks together, as even as they go
    for (std::size_t i = 0; i <= members_; ++i) bounds.push_back(count_ * i / members_);
    const Buffer mine = summed(bounds);
    std::vector<Bytes> to(members_, Bytes(mine));
    std::vector<Room> from;
    for (std::size_t i = 0; i < members_; ++i)
      from.emplace_back(out_[0] + bounds[i] * size_, (bounds[i + 1] - bounds[i]) * size_);
    exchange_.all_to_all(to, from);
    copy_to_other_ranks(bytes());
  }

  void reduce_scatter() {
    std::vector<std::size_t> bounds;
    for (std::size_t i = 0; i <= members_; ++i) bounds.push_back(i * each_ * count_);
    const Buffer mine = summed(bounds);
    for (std::size_t r = 0; r < each_; ++r) std::memcpy(out_[r], mine.data() + r * bytes(), bytes());
  }

  void all_gather() {
    const Buffer mine = packed(0, count_);
    std::vector<Bytes> to(members_, Bytes(mine));
    std::vector<Room> from;
    for (std::size_t i = 0; i < members_; ++i) from.emplace_back(out_[0] + i * mine.size(), mine.size());
    exchange_.all_to_all(to, from);
    copy_to_other_ranks(ranks() * bytes());
  }

  void broadcast() {
    const auto root = static_cast<std::size_t>(head_.peer);
    const std::size_t root_member = root / each_;
    Buffer mine;
    if (root_member == me_) mine.assign(in_[root % each_], in_[root % each_] + bytes());
    std::vector<Bytes> to(members_, Bytes(mine));
    std::vector<Room> from(members_);
    from[root_member] = {out_[0], bytes()};
    exchange_.all_to_all(to, from);
    copy_to_other_ranks(bytes());
  }

  /// A message is the header and the elements.
  void pass() {
    const int member = head_.peer / static_cast<int>(each_);
    const Header mine = header_of(head_);
    if (head_.kind == Collective::Send) {
      exchange_.send(member, std::as_bytes(std::span(&mine, 1)));
      return exchange_.send(member, {in_[0], bytes()});
    }
    Header theirs{};
    exchange_.receive(member, std::as_writable_bytes(std::span(&theirs, 1)));
    if (theirs.count != mine.count || theirs.element != mine.element) {
      const GroupFailure failure{head_.peer,
                                 concat("called ", text_of(theirs), ", where it is received by ", text_of(mine))};
      exchange_.abort(failure);
      throw_group_failure(failure, head_.label, head_.where);
    }
    exchange_.receive(member, {out_[0], bytes()});
  }

  Exchange& exchange_;
  const CollectiveHead& head_;
  std::span<const std::byte* const> in_;
  std::span<std::byte* const> out_;
  std::size_t each_, members_, me_, size_, count_;
};

}  // namespace

void run_collective(Exchange& exchange, int ranks_each, const CollectiveHead& head,
                    std::span<const std::byte* const> in, std::span<std::byte* const> out) {
  Run(exchange, ranks_each, head, in, out).run();
}

}  // namespace tessera::mesh
