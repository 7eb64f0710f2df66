#include "transport/socket_channel.hpp"

#include <utility>

#include "transport/address.hpp"
#include "transport/hello.hpp"

namespace zerolock {

namespace {

FrameBounds first_frame_bounds(StreamSide side) {
  FrameBounds bounds;
  if (side == StreamSide::listener) return bounds.allow(FrameType::hello, hello_bytes_max);
  return bounds.allow(FrameType::welcome, hello_bytes_max).allow(FrameType::refuse, hello_bytes_max);
}

}  // namespace

SocketChannel::SocketChannel(std::shared_ptr<EventLoop> loop_, asio::ip::tcp::socket socket_,
                             const Security& security, StreamSide side)
    : loop(std::move(loop_)), socket(std::move(socket_)), decoder(first_frame_bounds(side)) {
  asio::error_code error;
  remote = endpoint_text(socket.remote_endpoint(error));
  socket.non_blocking(true, error);
  // Frames are written in one piece: waiting for more bytes would only delay them.
  socket.set_option(asio::ip::tcp::no_delay(true), error);
  stream = make_byte_stream(socket.native_handle(), security, side);
}

std::string endpoint_text(const asio::ip::tcp::endpoint& endpoint) {
  asio::ip::address address = endpoint.address();
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    address = asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  }
  return Address{address.to_string(), endpoint.port()}.text();
}

}  // namespace zerolock
