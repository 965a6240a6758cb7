mod model;
use model::outage::*;
fn main() {
    for seed in 1..2 {
    for b in Behaviour::ALL {
        let s = run(b, Scene::FULL, seed);
        println!("{:24} load calm {:.3} out {:.3} after {:.3} peak {} failed calm {:.4} out {:.3} after {:.3} recovery {:?}", b.name(), s.load(0,30), s.load(30,60), s.load(60,170), s.peak(), s.failed(0,25), s.failed(30,60), s.failed(60,170), s.recovery());
        if b == Behaviour::CoolDown { for t in 28..80 { let x = s.seconds[t]; print!("{t}:{}/{}/{} ", x.sends, x.goodput, x.healed);} println!(); }
        if b == Behaviour::Budget { for t in 28..80 { let x = s.seconds[t]; print!("{t}:{}/{}/{} ", x.sends, x.goodput, x.healed);} println!(); }
    }}
}
