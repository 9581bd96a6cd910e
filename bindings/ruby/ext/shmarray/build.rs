//! Passes on which Ruby the gem is built for, as cfgs such as `ruby_gte_3_3`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    rb_sys_env::activate()?;
    Ok(())
}
