#include "supervision/fault_orders.hpp"

#include <chrono>
#include <future>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "supervision/cluster_plan.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

constexpr std::uint32_t text_bytes_max = 4096;
constexpr std::chrono::seconds answer_limit{10};  // a coordinator answers on its network's thread

Frame text_frame(FrameType type, const std::string& text) {
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  Frame frame;
  frame.type = type;
  frame.metadata.assign(bytes, bytes + std::min<std::size_t>(text.size(), text_bytes_max));
  return frame;
}

std::string text_of(const Frame& frame) {
  return {reinterpret_cast<const char*>(frame.metadata.data()), frame.metadata.size()};
}

std::string answer_to(const Frame& frame, const std::function<std::string(const Fault&)>& order) {
  try {
    return order(parse_fault(text_of(frame), "the fault"));
  } catch (const InputError& error) {
    return error.what();
  }
}

}  // namespace

ConnectionOptions fault_taker_options() {
  ConnectionOptions options;
  options.bounds.allow(FrameType::request, text_bytes_max);
  return options;
}

void serve_fault_order(const std::shared_ptr<Connection>& connection,
                       const std::function<std::string(const Fault&)>& order) {
  // The events keep the connection until its end, which drops them.
  connection->start({[connection, order](const Frame& frame) {
                       connection->send(text_frame(FrameType::part, answer_to(frame, order)));
                       connection->close("the order is answered");
                     },
                     [](const std::string&) {}});
}

void order_fault(DialOptions dial, const Fault& fault) {
  dial.hello.purpose = ConnectionPurpose::inject;
  dial.hello.program_version = program_version;
  dial.connection.bounds.allow(FrameType::part, text_bytes_max);
  const std::string where = dial.address.text();
  struct Exchange {
    std::promise<std::string> answer;  // why it is refused; empty: it is not
    std::shared_ptr<Connection> connection;
    bool answered = false;

    void say(const std::string& text) {
      if (!std::exchange(answered, true)) answer.set_value(text);
    }
  };
  const auto exchange = std::make_shared<Exchange>();
  std::future<std::string> answer = exchange->answer.get_future();
  Network network;
  network.dial(std::move(dial), [exchange, where, fault](DialResult result) {
    if (const auto* failure = std::get_if<DialFailure>(&result)) return exchange->say(failure->reason);
    exchange->connection = std::get<Dialled>(result).connection;
    exchange->connection->start({[exchange](const Frame& frame) { exchange->say(text_of(frame)); },
                                 [exchange, where](const std::string& cause) {
                                   exchange->say(where + ": " + cause);
                                   exchange->connection.reset();
                                 }});
    exchange->connection->send(text_frame(FrameType::request, to_string(fault)));
  });
  if (answer.wait_for(answer_limit) != std::future_status::ready) throw RunError(where + ": no answer came");
  if (const std::string reason = answer.get(); !reason.empty()) throw RunError(reason);
}

}  // namespace zerolock
